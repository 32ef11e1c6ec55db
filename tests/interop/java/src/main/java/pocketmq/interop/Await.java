package pocketmq.interop;

import java.util.concurrent.Callable;

/** Bounded waiting for what the cluster does in its own time. */
final class Await {

  private static final long STEP_MS = 20;

  private Await() {}

  /** Polls until the condition holds; fails with {@code what} after {@code timeoutMs}. */
  static void until(String what, long timeoutMs, Callable<Boolean> condition) throws Exception {
    long deadline = System.nanoTime() + timeoutMs * 1_000_000;
    while (!condition.call()) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError("not within " + timeoutMs + " ms: " + what);
      }
      sleep(STEP_MS);
    }
  }

  static void sleep(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting", interrupted);
    }
  }
}
