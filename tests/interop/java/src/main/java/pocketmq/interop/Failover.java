package pocketmq.interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer and two groups, one of them orderly, while the broker set's leader changes: of ten
 * messages one is delayed, one is committed by a check, and one fails at first in the group that is
 * not orderly. What a send does not get rid of is sent again by the application.
 *
 * <p>Options: {@code --messages}, {@code --pace-ms} between two of them.
 */
final class Failover {

  private static final long TRY_AGAIN_MS = 200;
  private static final int DELAYED = 3;
  private static final int CHECKED = 6;
  private static final int FAILING = 9;

  private Failover() {}

  record Seen(int sent, int failedSends, List<Inbox.Delivery> orderly, List<Inbox.Delivery> plain) {}

  static Seen run(Options options) throws Exception {
    int messages = options.number("messages", 200);
    try (Stage stage = new Stage(options, 1)) {
      Inbox orderly = new Inbox();
      Inbox plain = new Inbox();
      stage.createRetryTopic(stage.group());
      orderlyMember(stage, orderly).start();
      plainMember(stage, plain).start();
      TransactionMQProducer transactions = transactions(stage);
      int failed = 0;
      for (int number = 0; number < messages; number++) {
        boolean isChecked = number % 10 == CHECKED;
        Message message = stage.message(String.valueOf(number));
        if (number % 10 == DELAYED) {
          message.setDelayTimeLevel(1);
        }
        message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1");
        while (!isSent(isChecked ? transactions : stage.producer(), message, isChecked)) {
          failed++;
          Await.sleep(TRY_AGAIN_MS);
        }
        Await.sleep(options.number("pace-ms", 50));
      }
      return new Seen(
          messages,
          failed,
          orderly.await("all in the orderly group", all -> distinct(all) == messages),
          plain.await("all in the other group", all -> distinct(all) == messages));
    }
  }

  private static boolean isSent(DefaultMQProducer producer, Message message, boolean isChecked) {
    try {
      var result =
          isChecked
              ? producer.sendMessageInTransaction(message, null)
              : producer.send(message);
      return result.getSendStatus() == SendStatus.SEND_OK;
    } catch (Exception failure) {
      System.err.println("tried again: " + failure);
      return false;
    }
  }

  private static long distinct(List<Inbox.Delivery> deliveries) {
    return deliveries.stream().map(one -> one.message().keys()).distinct().count();
  }

  private static DefaultMQPushConsumer orderlyMember(Stage stage, Inbox inbox) throws Exception {
    DefaultMQPushConsumer consumer = stage.consumer(stage.group() + "-orderly");
    consumer.subscribe(stage.topic(), "*");
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeOrderlyContext context) -> {
          inbox.add("orderly", messages);
          return ConsumeOrderlyStatus.SUCCESS;
        });
    return consumer;
  }

  private static DefaultMQPushConsumer plainMember(Stage stage, Inbox inbox) throws Exception {
    DefaultMQPushConsumer consumer = stage.consumer(stage.group());
    consumer.subscribe(stage.topic(), "*");
    consumer.setConsumeMessageBatchMaxSize(1);
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          MessageExt message = messages.get(0);
          int number = Integer.parseInt(message.getKeys());
          if (number % 10 == FAILING && message.getReconsumeTimes() == 0) {
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
          }
          inbox.add("plain", messages);
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    return consumer;
  }

  private static TransactionMQProducer transactions(Stage stage) throws Exception {
    TransactionMQProducer producer =
        new TransactionMQProducer(stage.group() + "-transactions", Signing.hook());
    Clients.prepare(producer, stage.options(), "transactions");
    producer.setTransactionListener(
        new TransactionListener() {
          @Override
          public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.UNKNOW;
          }

          @Override
          public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.COMMIT_MESSAGE;
          }
        });
    producer.start();
    stage.closeLater(producer::shutdown);
    return producer;
  }
}
