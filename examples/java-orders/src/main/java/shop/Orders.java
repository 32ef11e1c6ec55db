package shop;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Takes orders: tells everybody, and has itself reminded of those that may not be paid. */
public final class Orders implements AutoCloseable {
  public static final String EVENTS = "OrderEvents";
  public static final String REMINDERS = "Reminders";
  public static final Duration REMIND_AFTER = Duration.ofHours(2);

  private final DefaultMQProducer producer;

  public Orders(String namesrv) throws Exception {
    producer = new DefaultMQProducer("orders");
    producer.setNamesrvAddr(namesrv);
    producer.setSendMsgTimeout(30_000);
    producer.start();
  }

  public SendResult order(String id, String article) throws Exception {
    SendResult told = producer.send(new Message(EVENTS, "ordered", id, bytes(article)));
    Message reminder = new Message(REMINDERS, "", id, bytes(id));
    reminder.setDelayTimeMs(REMIND_AFTER.toMillis());
    producer.send(reminder);
    return told;
  }

  @Override
  public void close() {
    producer.shutdown();
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
