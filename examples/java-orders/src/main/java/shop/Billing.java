package shop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Bills orders; one that cannot be billed is tried again, sixteen times. */
public final class Billing implements AutoCloseable {
  public static final String GROUP = "billing";

  private final DefaultMQPushConsumer consumer;
  private final Consumer<String> bank;

  public Billing(String namesrv, Consumer<String> bank) throws Exception {
    this.bank = bank;
    consumer = new DefaultMQPushConsumer(GROUP);
    consumer.setNamesrvAddr(namesrv);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setPersistConsumerOffsetInterval(100);
    consumer.subscribe(Orders.EVENTS, "*");
    consumer.registerMessageListener(this::bill);
    consumer.start();
  }

  private ConsumeConcurrentlyStatus bill(
      List<MessageExt> messages, ConsumeConcurrentlyContext context) {
    for (MessageExt message : messages) {
      try {
        bank.accept(new String(message.getBody(), StandardCharsets.UTF_8));
      } catch (IllegalStateException e) {
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
      }
    }
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
  }

  @Override
  public void close() {
    consumer.shutdown();
  }
}
