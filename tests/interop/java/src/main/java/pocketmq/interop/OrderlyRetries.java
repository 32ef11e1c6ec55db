package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * An orderly listener that suspends its queue, once for a message that then succeeds, and for one
 * that never does until it is a dead letter. What follows in the queue waits.
 */
final class OrderlyRetries {

  private static final int RECONSUME_TIMES_MAX = 2;
  private static final int SUSPEND_MS = 100;
  private static final List<String> KEYS =
      List.of("first", "suspended", "after", "hopeless", "last");
  private static final int DELIVERIES = KEYS.size() + 1 + RECONSUME_TIMES_MAX;

  private OrderlyRetries() {}

  record Seen(List<Inbox.Delivery> deliveries, List<Views.Received> deadLetters) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer consumer = stage.consumer(stage.group());
      consumer.setMaxReconsumeTimes(RECONSUME_TIMES_MAX);
      consumer.subscribe(stage.topic(), "*");
      consumer.registerMessageListener(
          (List<MessageExt> messages, ConsumeOrderlyContext context) -> {
            inbox.add("orderly", messages);
            context.setSuspendCurrentQueueTimeMillis(SUSPEND_MS);
            return judge(messages.get(0));
          });
      consumer.start();
      for (String key : KEYS) {
        stage.producer().send(stage.message(key));
      }
      return new Seen(inbox.await("all attempts", DELIVERIES), deadLetters(stage));
    }
  }

  private static ConsumeOrderlyStatus judge(MessageExt message) {
    boolean fails =
        switch (message.getKeys()) {
          case "suspended" -> message.getReconsumeTimes() == 0;
          case "hopeless" -> true;
          default -> false;
        };
    return fails
        ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        : ConsumeOrderlyStatus.SUCCESS;
  }

  private static List<Views.Received> deadLetters(Stage stage) throws Exception {
    String topic = "%DLQ%" + stage.group();
    DefaultMQPullConsumer reader = stage.pullConsumer(stage.group() + "-reader");
    Pull.awaitTopic(reader, topic);
    List<Views.Received> found = new ArrayList<>();
    for (MessageQueue queue : Pull.awaitMessages(reader, topic, 1)) {
      Pull.readAll(reader, queue, new ArrayList<>())
          .forEach(message -> found.add(Views.received(message)));
    }
    return found;
  }
}
