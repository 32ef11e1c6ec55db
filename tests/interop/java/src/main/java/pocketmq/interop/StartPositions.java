package pocketmq.interop;

import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Where groups that never consumed begin: in a young topic at its first message, all of them. */
final class StartPositions {

  private static final int MESSAGES = 6;

  private StartPositions() {}

  /** {@code deliveries}: ConsumeFromWhere to how many messages a new group got. */
  record Seen(int sent, Map<String, Integer> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 2)) {
      stage.send(0, MESSAGES);
      Map<String, Inbox> inboxes = new TreeMap<>();
      for (ConsumeFromWhere where :
          new ConsumeFromWhere[] {
            ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
          }) {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = stage.consumer(stage.group() + "-" + where);
        consumer.setConsumeFromWhere(where);
        consumer.subscribe(stage.topic(), "*");
        Stage.accept(consumer, where.name(), inbox);
        consumer.start();
        inboxes.put(where.name(), inbox);
      }
      Map<String, Integer> deliveries = new TreeMap<>();
      for (var one : inboxes.entrySet()) {
        deliveries.put(one.getKey(), one.getValue().await(one.getKey(), MESSAGES).size());
      }
      return new Seen(MESSAGES, deliveries);
    }
  }
}
