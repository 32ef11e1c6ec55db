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

  // Lambdas, not method references: those would load every command at once, also ones that an old
  // client has no classes for.
  static {
    COMMANDS.put("create-topic", options -> CreateTopic.run(options));
    COMMANDS.put("inspect", options -> Inspect.run(options));
    COMMANDS.put("send", options -> Send.run(options));
    COMMANDS.put("pull", options -> Pull.run(options));
    COMMANDS.put("lite-pull", options -> LitePull.run(options));
    COMMANDS.put("produce-known", options -> KnownMessages.produce(options));
    COMMANDS.put("consume-known", options -> KnownMessages.consume(options));
    COMMANDS.put("together", options -> Together.run(options));
    COMMANDS.put("clustering", options -> Clustering.run(options));
    COMMANDS.put("retries", options -> Retries.run(options));
    COMMANDS.put("broadcasting", options -> Broadcasting.run(options));
    COMMANDS.put("filters", options -> Filters.run(options));
    COMMANDS.put("start-positions", options -> StartPositions.run(options));
    COMMANDS.put("namespaces", options -> Namespaces.run(options));
    COMMANDS.put("orderly", options -> Orderly.run(options));
    COMMANDS.put("orderly-retries", options -> OrderlyRetries.run(options));
    COMMANDS.put("transactions", options -> Transactions.run(options));
    COMMANDS.put("delays", options -> Delays.run(options));
    COMMANDS.put("timers", options -> Timers.run(options));
    COMMANDS.put("lite-seek", options -> LiteSeek.run(options));
    COMMANDS.put("pull-block", options -> PullBlock.run(options));
    COMMANDS.put("request-reply", options -> RequestReply.run(options));
    COMMANDS.put("trace", options -> Trace.run(options));
    COMMANDS.put("operator", options -> Operator.run(options));
    COMMANDS.put("mqadmin", options -> MqAdmin.run(options));
    COMMANDS.put("popping", options -> Popping.run(options));
    COMMANDS.put("queries", options -> Queries.run(options));
    COMMANDS.put("failover", options -> Failover.run(options));
    COMMANDS.put("calls", options -> Calls.run(options));
    COMMANDS.put("forward", options -> Forward.run(options));
    COMMANDS.put("load", options -> Load.run(options));
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
