package pocketmq.interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Messages that fail: always, with an exception, once, as the end of a batch; what becomes of each
 * by way of the group's retry topic, and what ends in its dead-letter topic.
 */
final class Retries {

  /** Delay level of a message that is to go to the dead letters at once. */
  private static final int NEVER_AGAIN = -1;

  private static final int RECONSUME_TIMES_MAX = 2;
  private static final int DEAD_LETTERS = 3;

  /** "fine" and "refused" once, "once" twice, the other two until they are dead letters. */
  private static final int DELIVERIES = 1 + 1 + 2 + 2 * (1 + RECONSUME_TIMES_MAX);

  private static final int BATCH = 4;
  private static final int BATCH_DELIVERIES = BATCH + BATCH / 2;

  private Retries() {}

  record Seen(
      String group,
      List<Inbox.Delivery> deliveries,
      List<Inbox.Delivery> batches,
      List<Views.Received> deadLetters) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      stage.createRetryTopic(stage.group());
      for (String key : List.of("fine", "hopeless", "throws", "refused", "once")) {
        stage.producer().send(stage.message(key));
      }
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer consumer = stage.consumer(stage.group());
      consumer.setMaxReconsumeTimes(RECONSUME_TIMES_MAX);
      consumer.subscribe(stage.topic(), "*");
      consumer.registerMessageListener(
          (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
            inbox.add("single", messages);
            return judge(messages.get(0), context);
          });
      consumer.start();
      List<Inbox.Delivery> batches = batch(stage);
      List<Inbox.Delivery> deliveries = inbox.await("all retries", DELIVERIES);
      return new Seen(stage.group(), deliveries, batches, deadLetters(stage));
    }
  }

  private static ConsumeConcurrentlyStatus judge(
      MessageExt message, ConsumeConcurrentlyContext context) {
    switch (message.getKeys()) {
      case "hopeless":
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
      case "throws":
        throw new IllegalStateException("the listener fails, as it was asked to");
      case "refused":
        context.setDelayLevelWhenNextConsume(NEVER_AGAIN);
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
      case "once":
        return message.getReconsumeTimes() == 0
            ? ConsumeConcurrentlyStatus.RECONSUME_LATER
            : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      default:
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }
  }

  /** Four messages in one call, of which the listener acknowledges the first half. */
  private static List<Inbox.Delivery> batch(Stage stage) throws Exception {
    String topic = stage.topic() + "-batch";
    stage.createTopic(topic, 1);
    stage.createRetryTopic(stage.group() + "-batch");
    Collection<Message> messages = new ArrayList<>();
    for (int i = 0; i < BATCH; i++) {
      messages.add(new Message(topic, null, Integer.toString(i), new byte[] {(byte) i}));
    }
    stage.producer().send(messages);
    Pull.awaitMessages(stage.pullConsumer(stage.group() + "-wait"), topic, BATCH);
    Inbox inbox = new Inbox();
    DefaultMQPushConsumer consumer = stage.consumer(stage.group() + "-batch");
    consumer.setConsumeMessageBatchMaxSize(BATCH);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (List<MessageExt> received, ConsumeConcurrentlyContext context) -> {
          inbox.add("batch", received);
          if (received.size() == BATCH) {
            context.setAckIndex(BATCH / 2 - 1);
          }
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    consumer.start();
    return inbox.await("the second half of the batch again", BATCH_DELIVERIES);
  }

  private static List<Views.Received> deadLetters(Stage stage) throws Exception {
    String topic = "%DLQ%" + stage.group();
    DefaultMQPullConsumer reader = stage.pullConsumer(stage.group() + "-reader");
    Pull.awaitTopic(reader, topic);
    List<Views.Received> found = new ArrayList<>();
    for (MessageQueue queue : Pull.awaitMessages(reader, topic, DEAD_LETTERS)) {
      Pull.readAll(reader, queue, new ArrayList<>())
          .forEach(message -> found.add(Views.received(message)));
    }
    return found;
  }
}
