package pocketmq.interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs sub-commands of Apache's mqadmin one after the other, as its users would, but in one JVM.
 *
 * <p>Option: {@code --calls}, a JSON list of lists of words. Seen is, for each, what it printed, the
 * stack trace that it ended with, if any, and what it asked the servers and was answered; a byte of
 * their bodies is a character.
 */
final class MqAdmin {

  record Call(
      List<String> words, String printed, String errors, long millis, List<Exchange> exchanges) {}

  record Exchange(
      int request,
      Map<String, String> fields,
      String body,
      int code,
      String remark,
      Map<String, String> answerFields,
      String answerBody) {}

  /** Writes down what a sub-command asks and is answered. */
  private static final class Record implements RPCHook {

    final List<Exchange> exchanges = Collections.synchronizedList(new ArrayList<>());

    /** Given a hook, mqadmin makes none itself of its tools.yml. */
    private final RPCHook signing = Signing.hook();

    @Override
    public void doBeforeRequest(String address, RemotingCommand request) {
      if (signing != null) {
        signing.doBeforeRequest(address, request);
      }
    }

    @Override
    public void doAfterResponse(
        String address, RemotingCommand request, RemotingCommand response) {
      if (response == null) {
        return;
      }
      exchanges.add(
          new Exchange(
              request.getCode(),
              request.getExtFields(),
              bytes(request.getBody()),
              response.getCode(),
              response.getRemark(),
              response.getExtFields(),
              bytes(response.getBody())));
    }

    private static String bytes(byte[] body) {
      return body == null ? null : new String(body, StandardCharsets.ISO_8859_1);
    }
  }

  private static final Type CALLS = new TypeToken<List<List<String>>>() {}.getType();

  private static final long WAKE_PERIOD_MS = 20;

  /** Ends only with its process: it is interrupted when it has printed its first row. */
  private static final String ENDLESS = "clusterRT";

  /** Goes on in threads of its own, and first asks after 20 s: that is waited for at the end. */
  private static final String IN_BACKGROUND = "startMonitoring";

  /** Its round ends with what a group has consumed (GET_CONSUME_STATS). */
  private static final int LAST_OF_A_ROUND = 208;

  private static final long WAIT_MS = 60_000;

  private static final int TRIES = 4;

  private static final Pattern NO_ANSWER =
      Pattern.compile("Remoting(?:Timeout|Connect|SendRequest|TooMuchRequest)Exception");

  private MqAdmin() {}

  static List<Call> run(Options options) throws Exception {
    endExecutorsAtOnce();
    List<List<String>> calls = new Gson().fromJson(options.text("calls"), CALLS);
    List<Call> seen = new ArrayList<>();
    for (List<String> words : calls) {
      seen.add(patiently(words));
    }
    for (Call call : seen) {
      if (is(call.words(), IN_BACKGROUND)) {
        Await.until(
            IN_BACKGROUND, WAIT_MS, () -> answered(call.exchanges()).contains(LAST_OF_A_ROUND));
      }
    }
    return seen.stream().map(MqAdmin::settled).toList();
  }

  private static boolean is(List<String> words, String name) {
    return !words.isEmpty() && words.get(0).equals(name);
  }

  private static List<Integer> answered(List<Exchange> exchanges) {
    synchronized (exchanges) {
      return exchanges.stream().map(Exchange::request).toList();
    }
  }

  /** A copy that does not grow while it is written out. */
  private static Call settled(Call call) {
    synchronized (call.exchanges()) {
      return new Call(
          call.words(), call.printed(), call.errors(), call.millis(), List.copyOf(call.exchanges()));
    }
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

  /** Some commands keep the client that they shut down: each call gets commands of its own. */
  private static void forgetUsedCommands() throws ReflectiveOperationException {
    Field commands = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
    commands.setAccessible(true);
    ((List<?>) commands.get(null)).clear();
  }

  /** Calls again what got no answer in time: mqadmin waits for 5 s, and machines are busy. */
  private static Call patiently(List<String> words) throws Exception {
    Call call = call(words);
    for (int again = 1; again < TRIES && NO_ANSWER.matcher(call.errors()).find(); again++) {
      call = call(words);
    }
    return call;
  }

  private static Call call(List<String> words) throws Exception {
    forgetUsedCommands();
    PrintStream out = System.out;
    PrintStream err = System.err;
    var printed = new ByteArrayOutputStream();
    var errors = new ByteArrayOutputStream();
    var record = new Record();
    long begin = System.nanoTime();
    try (var toPrinted = new PrintStream(printed, true, StandardCharsets.UTF_8);
        var toErrors = new PrintStream(errors, true, StandardCharsets.UTF_8)) {
      System.setOut(toPrinted);
      System.setErr(toErrors);
      Thread thread =
          new Thread(() -> MQAdminStartup.main0(words.toArray(new String[0]), record), "mqadmin");
      thread.start();
      if (is(words, ENDLESS)) {
        Await.until(ENDLESS, WAIT_MS, () -> printed.toString().lines().count() > 1);
        thread.interrupt();
      }
      thread.join();
    } finally {
      System.setOut(out);
      System.setErr(err);
    }
    return new Call(
        words,
        printed.toString(StandardCharsets.UTF_8),
        errors.toString(StandardCharsets.UTF_8),
        (System.nanoTime() - begin) / 1_000_000,
        record.exchanges);
  }
}
