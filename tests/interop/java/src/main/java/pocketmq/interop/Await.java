package pocketmq.interop;

import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

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

  /** Waits until everybody has come; false if that takes longer than {@code timeoutMs}. */
  static boolean everybody(CountDownLatch latch, long timeoutMs) {
    try {
      return latch.await(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting", interrupted);
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
