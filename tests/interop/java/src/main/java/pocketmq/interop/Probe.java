package pocketmq.interop;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * Drives a cluster with Apache's own client and prints what it saw as one JSON document.
 *
 * <p>{@code Probe COMMAND --namesrv HOST:PORT [--name value]...}; every command lists its options.
 * Exit codes: 0 the document is on stdout, 1 the command failed (the reason is on stderr), 2 wrong
 * usage, 3 the deadline ({@code --deadline-s}, default 60) passed.
 */
public final class Probe {

  /** One sub-command; the result is anything Gson can write. */
  interface Command {
    Object run(Options options) throws Exception;
  }

  static final int EXIT_FAILED = 1;
  static final int EXIT_USAGE = 2;
  static final int EXIT_DEADLINE = 3;

  private static final Map<String, Command> COMMANDS = new TreeMap<>();

  static {
    COMMANDS.put("create-topic", CreateTopic::run);
    COMMANDS.put("inspect", Inspect::run);
    COMMANDS.put("send", Send::run);
    COMMANDS.put("pull", Pull::run);
    COMMANDS.put("lite-pull", LitePull::run);
    COMMANDS.put("produce-known", KnownMessages::produce);
    COMMANDS.put("consume-known", KnownMessages::consume);
    COMMANDS.put("together", Together::run);
    COMMANDS.put("clustering", Clustering::run);
    COMMANDS.put("retries", Retries::run);
    COMMANDS.put("broadcasting", Broadcasting::run);
    COMMANDS.put("filters", Filters::run);
    COMMANDS.put("start-positions", StartPositions::run);
    COMMANDS.put("namespaces", Namespaces::run);
    COMMANDS.put("orderly", Orderly::run);
    COMMANDS.put("orderly-retries", OrderlyRetries::run);
    COMMANDS.put("transactions", Transactions::run);
    COMMANDS.put("delays", Delays::run);
    COMMANDS.put("timers", Timers::run);
    COMMANDS.put("lite-seek", LiteSeek::run);
    COMMANDS.put("pull-block", PullBlock::run);
    COMMANDS.put("request-reply", RequestReply::run);
    COMMANDS.put("trace", Trace::run);
    COMMANDS.put("operator", Operator::run);
    COMMANDS.put("queries", Queries::run);
  }

  private Probe() {}

  /** Runs the command named by the first argument and always ends the process. */
  public static void main(String[] arguments) {
    // The client and its logging may write to System.out; stdout must hold the document alone.
    PrintStream document = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    try {
      Command command = command(arguments.length == 0 ? "" : arguments[0]);
      Options options = Options.parse(arguments);
      startDeadline(options.number("deadline-s", 60));
      Object seen = command.run(options);
      Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
      document.println(gson.toJson(seen));
      document.flush();
      exit(0, null);
    } catch (Options.UsageException usage) {
      exit(EXIT_USAGE, usage.getMessage());
    } catch (Exception | AssertionError failure) {
      failure.printStackTrace();
      exit(EXIT_FAILED, arguments[0] + " failed: " + failure);
    }
  }

  static Command command(String name) {
    Command command = COMMANDS.get(name);
    if (command == null) {
      String commands = String.join("|", COMMANDS.keySet());
      throw new Options.UsageException("usage: Probe " + commands + " [--name value]...");
    }
    return command;
  }

  /** Ends the process if it outlives the deadline, with the stacks that show where it waited. */
  private static void startDeadline(int seconds) {
    Thread thread =
        new Thread(
            () -> {
              Await.sleep(seconds * 1000L);
              Thread.getAllStackTraces().forEach(Probe::printStack);
              System.err.println("deadline of " + seconds + " s passed");
              Runtime.getRuntime().halt(EXIT_DEADLINE);
            },
            "deadline");
    thread.setDaemon(true);
    thread.start();
  }

  private static void printStack(Thread thread, StackTraceElement[] stack) {
    System.err.println(thread.getName());
    for (StackTraceElement frame : stack) {
      System.err.println("    at " + frame);
    }
  }

  /** Client threads are not daemons, and a failed command may leave some: leave without waiting. */
  private static void exit(int code, String reason) {
    if (reason != null) {
      System.err.println(reason);
    }
    System.err.flush();
    Runtime.getRuntime().halt(code);
  }
}
