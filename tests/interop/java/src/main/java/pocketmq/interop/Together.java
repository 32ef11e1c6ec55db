package pocketmq.interop;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs several commands at once: most of what they take is the start of a JVM and waiting for the
 * cluster.
 *
 * <p>Options: {@code --commands}, comma separated; {@code --name}: each command gets a topic and a
 * group of its own, both called name-command. All other options are passed on.
 */
final class Together {

  private Together() {}

  /** One of {@code document} and {@code failure} (a stack trace) is null. */
  record Outcome(Object document, String failure, long tookMs) {}

  static Map<String, Outcome> run(Options options) throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    Map<String, Future<Outcome>> running = new LinkedHashMap<>();
    for (String name : options.text("commands").split(",")) {
      Probe.Command command = Probe.command(name);
      String unique = options.text("name") + "-" + name;
      Options own = options.with("topic", unique).with("group", unique);
      running.put(name, threads.submit(() -> outcome(command, own)));
    }
    Map<String, Outcome> outcomes = new LinkedHashMap<>();
    for (var one : running.entrySet()) {
      outcomes.put(one.getKey(), one.getValue().get());
    }
    return outcomes;
  }

  private static Outcome outcome(Probe.Command command, Options options) {
    long start = System.nanoTime();
    Object document = null;
    StringWriter failure = null;
    try {
      document = command.run(options);
    } catch (Exception | AssertionError failed) {
      failure = new StringWriter();
      failed.printStackTrace(new PrintWriter(failure));
    }
    long tookMs = (System.nanoTime() - start) / 1_000_000;
    return new Outcome(document, failure == null ? null : failure.toString(), tookMs);
  }
}
