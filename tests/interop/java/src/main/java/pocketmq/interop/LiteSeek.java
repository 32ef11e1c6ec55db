package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;

/**
 * Moves about in assigned queues with DefaultLitePullConsumer: seek, pause, commit, and what
 * another consumer of the group begins with.
 */
final class LiteSeek {

  private static final int MESSAGES = 20;
  private static final long POLL_TIMEOUT_MS = 200;
  private static final long TIMEOUT_MS = 60_000;
  private static final int POLLS_WHILE_PAUSED = 5;

  private LiteSeek() {}

  /**
   * The keys in the order of their poll: of all messages, after seeks to an offset and to the
   * begin, of what was sent after a seek to the end, and while and after the first queue is paused
   * at its begin.
   */
  record Seen(
      List<String> fromBegin,
      List<String> fromOffset,
      List<String> fromBeginAgain,
      List<String> afterEnd,
      List<String> whilePaused,
      List<String> resumed,
      Map<String, Long> byTime,
      List<String> fromCommitted) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 2)) {
      long before = System.currentTimeMillis() - TIMEOUT_MS;
      stage.send(0, MESSAGES);
      Pull.awaitMessages(stage.pullConsumer(stage.group() + "-wait"), stage.topic(), MESSAGES);
      DefaultLitePullConsumer consumer = pausedConsumer(stage);
      MessageQueue first = stage.queues().get(0);
      MessageQueue second = stage.queues().get(1);
      seek(() -> consumer.seekToBegin(first));
      seek(() -> consumer.seekToBegin(second));
      consumer.resume(stage.queues());
      List<String> fromBegin = poll(consumer, MESSAGES);
      seek(() -> consumer.seek(first, 5));
      List<String> fromOffset = poll(consumer, MESSAGES / 2 - 5);
      seek(() -> consumer.seekToBegin(first));
      List<String> fromBeginAgain = poll(consumer, MESSAGES / 2);
      seek(() -> consumer.seekToEnd(first));
      seek(() -> consumer.seekToEnd(second));
      stage.send(MESSAGES, MESSAGES + 2);
      List<String> afterEnd = poll(consumer, 2);
      // Without the seek a pull that the broker holds already could still bring a message.
      consumer.pause(List.of(first));
      seek(() -> consumer.seekToBegin(first));
      stage.send(MESSAGES + 3, MESSAGES + 4);
      List<String> whilePaused = poll(consumer, 1);
      for (int i = 0; i < POLLS_WHILE_PAUSED; i++) {
        consumer.poll(POLL_TIMEOUT_MS).forEach(message -> whilePaused.add(message.getKeys()));
      }
      consumer.resume(List.of(first));
      List<String> resumed = poll(consumer, MESSAGES / 2 + 1);
      var byTime =
          Map.of(
              "before", consumer.offsetForTimestamp(first, before),
              "after", consumer.offsetForTimestamp(first, before + 2 * TIMEOUT_MS));
      consumer.commitSync(Map.of(first, 3L), true);
      Await.until("offset 3 of the group", TIMEOUT_MS, () -> consumer.committed(first) == 3);
      consumer.shutdown();
      return new Seen(
          fromBegin,
          fromOffset,
          fromBeginAgain,
          afterEnd,
          whilePaused,
          resumed,
          byTime,
          fromCommitted(stage, first));
    }
  }

  /**
   * Has all queues, each paused before its first pull: under a seek a pull that has found messages
   * may hand them over beside those of the seek (PullTaskImpl#run looks whether it was cancelled
   * before it waits for the queue's lock). Later seeks meet pulls that find nothing.
   */
  private static DefaultLitePullConsumer pausedConsumer(Stage stage) throws Exception {
    DefaultLitePullConsumer consumer = LitePull.consumer(stage.options());
    stage.closeLater(consumer::shutdown);
    consumer.assign(stage.queues());
    consumer.pause(stage.queues());
    consumer.start();
    return consumer;
  }

  private interface Seek {
    void run() throws MQClientException;
  }

  /**
   * Seeks, again if need be: a seek interrupts the pull that is under way, and the client takes an
   * interrupt at the wrong moment for a broken connection, which it closes under all other calls
   * (NettyRemotingAbstract#invoke0).
   */
  private static void seek(Seek seek) throws Exception {
    Await.until(
        "a seek",
        TIMEOUT_MS,
        () -> {
          try {
            seek.run();
            return true;
          } catch (MQClientException closed) {
            if (closed.getCause() instanceof RemotingSendRequestException) {
              return false;
            }
            throw closed;
          }
        });
  }

  private static List<String> fromCommitted(Stage stage, MessageQueue queue) throws Exception {
    DefaultLitePullConsumer consumer = LitePull.consumer(stage.options());
    stage.closeLater(consumer::shutdown);
    consumer.start();
    consumer.assign(List.of(queue));
    return poll(consumer, MESSAGES / 2 + 1 - 3);
  }

  private static List<String> poll(DefaultLitePullConsumer consumer, int expected)
      throws Exception {
    List<String> keys = new ArrayList<>();
    Await.until(
        expected + " messages by poll",
        TIMEOUT_MS,
        () -> {
          for (MessageExt message : consumer.poll(POLL_TIMEOUT_MS)) {
            keys.add(message.getKeys());
          }
          return keys.size() >= expected;
        });
    return keys;
  }
}
