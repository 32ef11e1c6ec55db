package pocketmq.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs sub-commands of Apache's mqadmin one after the other, as its users would, but in one JVM.
 *
 * <p>Option: {@code --calls}, a JSON list of lists of words. Seen is, for each, what it printed and
 * the stack trace that it ended with, if any.
 */
final class MqAdmin {

  record Call(List<String> words, String printed, String errors, long millis) {}

  private static final Type CALLS = new TypeToken<List<List<String>>>() {}.getType();

  private static final long WAKE_PERIOD_MS = 20;

  private MqAdmin() {}

  static List<Call> run(Options options) {
    endExecutorsAtOnce();
    List<List<String>> calls = new Gson().fromJson(options.text("calls"), CALLS);
    List<Call> seen = new ArrayList<>();
    for (List<String> words : calls) {
      seen.add(call(words));
    }
    return seen;
  }

  /** Each command ends its client, which waits for up to 3 s until an idle thread looks up. */
  private static void endExecutorsAtOnce() {
    Thread thread =
        new Thread(
            () -> {
              while (true) {
                Await.sleep(WAKE_PERIOD_MS);
                Thread.getAllStackTraces().keySet().stream()
                    .filter(other -> other.getName().startsWith("NettyEventExecutor"))
                    .forEach(Thread::interrupt);
              }
            },
            "wake");
    thread.setDaemon(true);
    thread.start();
  }

  private static Call call(List<String> words) {
    PrintStream out = System.out;
    PrintStream err = System.err;
    var printed = new ByteArrayOutputStream();
    var errors = new ByteArrayOutputStream();
    long begin = System.nanoTime();
    try (var toPrinted = new PrintStream(printed, true, StandardCharsets.UTF_8);
        var toErrors = new PrintStream(errors, true, StandardCharsets.UTF_8)) {
      System.setOut(toPrinted);
      System.setErr(toErrors);
      MQAdminStartup.main0(words.toArray(new String[0]), null);
    } finally {
      System.setOut(out);
      System.setErr(err);
    }
    return new Call(
        words,
        printed.toString(StandardCharsets.UTF_8),
        errors.toString(StandardCharsets.UTF_8),
        (System.nanoTime() - begin) / 1_000_000);
  }
}
