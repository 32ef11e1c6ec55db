package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonObject;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.SendStatus;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class OrdersTest {
  private static PocketMq mq;

  @BeforeAll
  static void start() throws Exception {
    mq = new PocketMq();
  }

  @AfterAll
  static void stop() throws Exception {
    mq.close();
  }

  @BeforeEach
  void make() throws Exception {
    mq.reset();
    mq.ask("PUT", "/topics/" + Orders.EVENTS, "{\"queues\": 1}");
    mq.ask("PUT", "/topics/" + Orders.REMINDERS, "{\"queues\": 1}");
    mq.ask("PUT", "/groups/" + Billing.GROUP, "");
  }

  @Test
  void aReminderComesAfterTwoHours() throws Exception {
    try (Orders orders = new Orders(mq.namesrv())) {
      orders.order("4711", "book");
    }
    mq.advance("minutes", 119);
    assertEquals(List.of(), mq.published(Orders.REMINDERS, 0));
    mq.advance("minutes", 1);
    assertEquals(List.of("4711"), mq.published(Orders.REMINDERS, 1));
  }

  @Test
  void whatCannotBeBilledEndsAmongTheDeadLetters() throws Exception {
    AtomicInteger attempts = new AtomicInteger();
    try (Orders orders = new Orders(mq.namesrv());
        Billing billing =
            new Billing(
                mq.namesrv(),
                article -> {
                  attempts.incrementAndGet();
                  throw new IllegalStateException("the bank does not answer");
                })) {
      orders.order("4711", "book");
      // Sixteen retries, 10 s to 2 h apart: this consumer gets real time for each.
      mq.ask(
          "POST",
          "/clock/advance",
          "{\"days\": 1, \"until\": {\"deadLettersOf\": \"" + Billing.GROUP + "\"},"
              + " \"timeoutMs\": 60000}");
      // While the consumer runs: one that is closed before it has the last answer sends again.
      assertEquals(17, attempts.get());
      assertEquals(List.of("book"), mq.deadLetters(Billing.GROUP));
    }
  }

  @Test
  void aBusyBrokerIsAskedAgain() throws Exception {
    JsonObject busy =
        mq.ask(
            "POST",
            "/faults",
            "{\"kind\": \"answer\", \"code\": \"SYSTEM_BUSY\", \"request\": \"SEND_MESSAGE\","
                + " \"topic\": \"" + Orders.EVENTS + "\", \"times\": 2}");
    try (Orders orders = new Orders(mq.namesrv())) {
      assertEquals(SendStatus.SEND_OK, orders.order("4711", "book").getSendStatus());
    }
    JsonObject fired = mq.ask("DELETE", "/faults/" + busy.get("id").getAsString(), "");
    assertEquals(2, fired.get("count").getAsInt());
    assertEquals(List.of("book"), mq.published(Orders.EVENTS, 1));
  }
}
