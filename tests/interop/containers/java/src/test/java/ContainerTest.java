import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;

final class ContainerTest {
  @Test
  void twoHoursPassInAContainer() throws Exception {
    try (PocketMqContainer mq = new PocketMqContainer()) {
      mq.start();
      mq.control("PUT", "/topics/Orders", "{\"queues\": 1}");
      DefaultMQProducer producer = new DefaultMQProducer("shop");
      producer.setNamesrvAddr(mq.namesrv());
      producer.start();
      try {
        Message later = new Message("Orders", "remind".getBytes(StandardCharsets.UTF_8));
        later.setDelayTimeMs(7_200_000);
        assertEquals(SendStatus.SEND_OK, producer.send(later).getSendStatus());
      } finally {
        producer.shutdown();
      }
      assertFalse(messages(mq, 0).contains("remind"));
      mq.control("POST", "/clock/advance", "{\"hours\": 2}");
      assertTrue(messages(mq, 1).contains("remind"));
    }
  }

  private static String messages(PocketMqContainer mq, int count) {
    return mq.control("GET", "/topics/Orders/messages?waitFor=" + count, "");
  }
}
