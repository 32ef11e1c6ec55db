package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads a topic with DefaultLitePullConsumer, commits and reads the committed offsets back.
 *
 * <p>Options: {@code --topic}, {@code --expect}: how many messages to poll for, {@code --mode}
 * assign (all queues) or subscribe (the queues the rebalance gives), both from the group's committed
 * offsets, else from the first, {@code --group}.
 */
final class LitePull {

  private static final long POLL_TIMEOUT_MS = 200;
  private static final long EXPECT_TIMEOUT_MS = 60_000;

  private LitePull() {}

  /** Not started: what is subscribed must be set before. */
  static DefaultLitePullConsumer consumer(Options options) {
    DefaultLitePullConsumer consumer =
        new DefaultLitePullConsumer(options.text("group", "interop-lite"));
    Clients.prepare(consumer, options, "lite");
    consumer.setAutoCommit(false);
    return consumer;
  }

  record Seen(
      String topic, String mode, List<Views.Received> messages, Map<String, Long> committed) {}

  static Seen run(Options options) throws Exception {
    String mode = options.text("mode", "assign");
    DefaultLitePullConsumer consumer = consumer(options);
    try {
      switch (mode) {
        case "assign" -> assign(consumer, options.topic());
        case "subscribe" -> subscribe(consumer, options.topic());
        default -> throw new Options.UsageException("--mode is assign or subscribe, not " + mode);
      }
      List<Views.Received> messages = poll(consumer, options.number("expect", 0));
      messages.sort(Pull.BY_POSITION);
      return new Seen(options.topic(), mode, messages, commit(consumer));
    } finally {
      consumer.shutdown();
    }
  }

  private static void assign(DefaultLitePullConsumer consumer, String topic) throws Exception {
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.start();
    consumer.assign(consumer.fetchMessageQueues(topic));
  }

  private static void subscribe(DefaultLitePullConsumer consumer, String topic) throws Exception {
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    consumer.start();
  }

  static List<Views.Received> poll(DefaultLitePullConsumer consumer, int expected)
      throws Exception {
    List<Views.Received> messages = new ArrayList<>();
    Await.until(
        expected + " messages by poll",
        EXPECT_TIMEOUT_MS,
        () -> {
          for (MessageExt message : consumer.poll(POLL_TIMEOUT_MS)) {
            messages.add(Views.received(message));
          }
          return messages.size() >= expected;
        });
    return messages;
  }

  /** Commits what was polled; the answer names queues "broker:queue" with the stored offset. */
  private static Map<String, Long> commit(DefaultLitePullConsumer consumer) throws Exception {
    Map<String, Long> committed = new TreeMap<>();
    consumer.commitSync();
    for (MessageQueue queue : consumer.assignment()) {
      committed.put(queue.getBrokerName() + ":" + queue.getQueueId(), consumer.committed(queue));
    }
    return committed;
  }
}
