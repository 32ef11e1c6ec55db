package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages for any time (5.x), of which some are recalled; what is refused. */
final class Timers {

  private static final long SOON_MS = 1500;
  private static final long SECOND_MS = 1000;
  private static final long TOO_FAR_SEC = 100L * 24 * 3600;

  private Timers() {}

  /** {@code dueAt}: by key; {@code refusals}: the response code of what was refused. */
  record Seen(
      Map<String, Long> dueAt,
      Map<String, String> msgIds,
      String recalled,
      Map<String, Integer> refusals,
      List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      Inbox inbox = new Inbox();
      stage.member("consumer", inbox).start();
      Map<String, Long> dueAt = new TreeMap<>();
      Map<String, SendResult> results = new TreeMap<>();
      long now = System.currentTimeMillis();
      // The recalled one is due before the last: that one's arrival shows that it will not come.
      send(stage, "recalled", "setDelayTimeSec", 3, now + 3 * SECOND_MS, dueAt, results);
      send(stage, "delay in s", "setDelayTimeSec", 2, now + 2 * SECOND_MS, dueAt, results);
      send(stage, "delay in ms", "setDelayTimeMs", SOON_MS, now + SOON_MS, dueAt, results);
      send(stage, "past", "setDeliverTimeMs", now - SECOND_MS, now - SECOND_MS, dueAt, results);
      long last = now + 5 * SECOND_MS;
      send(stage, "deliver at", "setDeliverTimeMs", last, last, dueAt, results);
      String handle = Since5.recallHandle(results.get("recalled"));
      String recalled = recall(stage, stage.topic(), handle);
      Map<String, Integer> refusals = new TreeMap<>();
      refusals.put("garbage", refusal(() -> recall(stage, stage.topic(), "garbage")));
      String other = stage.topic() + "-other";
      stage.createTopic(other, 1);
      refusals.put("other topic", refusal(() -> recall(stage, other, handle)));
      refusals.put("too far", refusal(() -> sendTooFar(stage)));
      Map<String, String> msgIds = new TreeMap<>();
      results.forEach((key, result) -> msgIds.put(key, result.getMsgId()));
      List<Inbox.Delivery> deliveries = inbox.await("all but the recalled one", 4);
      return new Seen(dueAt, msgIds, recalled, refusals, new ArrayList<>(deliveries));
    }
  }

  private static void send(
      Stage stage,
      String key,
      String setter,
      long value,
      long due,
      Map<String, Long> dueAt,
      Map<String, SendResult> results)
      throws Exception {
    Message message = stage.message(key);
    Since5.setTimer(message, setter, value);
    results.put(key, stage.producer().send(message));
    dueAt.put(key, due);
  }

  private static void sendTooFar(Stage stage) throws Exception {
    Message message = stage.message("too far");
    Since5.setTimer(message, "setDelayTimeSec", TOO_FAR_SEC);
    stage.producer().send(message);
  }

  private static String recall(Stage stage, String topic, String handle) throws Exception {
    return Since5.recall(stage.producer(), topic, handle);
  }

  private interface Attempt {
    void run() throws Exception;
  }

  private static int refusal(Attempt attempt) throws Exception {
    try {
      attempt.run();
    } catch (MQBrokerException refused) {
      return refused.getResponseCode();
    } catch (MQClientException refused) {
      return refused.getResponseCode();
    }
    throw new AssertionError("nothing was refused");
  }
}
