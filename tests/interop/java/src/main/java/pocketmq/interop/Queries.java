package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Finds messages as an operator does: by key in time ranges, by the client's id, by the address in
 * the offset message id; and looks into a queue's index.
 */
final class Queries {

  private static final int MESSAGES = 6;
  private static final int MAX = 32;
  private static final long INDEXED_TIMEOUT_MS = 60_000;
  private static final long HOUR_MS = 3_600_000;

  private Queries() {}

  record Entry(int physicSize, long tagsCode) {}

  record Seen(
      List<String> sentIds,
      Map<String, List<String>> bodies,
      Views.Received byUniqueKey,
      Views.Received byOffset,
      int nothingCode,
      int missingTopicCode,
      List<Entry> entries,
      List<Long> range) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      List<String> ids = new ArrayList<>();
      SendResult last = null;
      for (int i = 0; i < MESSAGES; i++) {
        String tag = i % 2 == 0 ? "even" : "odd";
        byte[] body = Integer.toString(i).getBytes(StandardCharsets.UTF_8);
        last = stage.producer().send(new Message(stage.topic(), tag, "all half-" + i / 3, body));
        ids.add(last.getMsgId());
      }
      Await.until(
          "all messages by their key",
          INDEXED_TIMEOUT_MS,
          () -> find(stage, "all", MAX, 0, Long.MAX_VALUE).size() == MESSAGES);
      long now = System.currentTimeMillis();
      Map<String, List<String>> bodies = new TreeMap<>();
      bodies.put("all", find(stage, "all", MAX, 0, Long.MAX_VALUE));
      bodies.put("half-1", find(stage, "half-1", MAX, 0, Long.MAX_VALUE));
      bodies.put("newest two", find(stage, "all", 2, 0, Long.MAX_VALUE));
      bodies.put("this hour", find(stage, "all", MAX, now - HOUR_MS, now + HOUR_MS));
      bodies.put("until an hour ago", find(stage, "all", MAX, 0, now - HOUR_MS));
      bodies.put("a tag", find(stage, "even", MAX, 0, Long.MAX_VALUE));
      var impl = stage.producer().getDefaultMQProducerImpl();
      MessageExt byUniqueKey = impl.queryMessageByUniqKey(stage.topic(), ids.get(2));
      MessageExt byOffset = stage.admin().viewMessage(stage.topic(), last.getOffsetMsgId());
      String broker = Views.host(byOffset.getStoreHost());
      var queue = stage.admin().queryConsumeQueue(broker, stage.topic(), 0, 1, 3, null);
      return new Seen(
          ids,
          bodies,
          Views.received(byUniqueKey),
          Views.received(byOffset),
          code(stage, stage.topic(), "nothing"),
          code(stage, stage.topic() + "-missing", "all"),
          queue.getQueueData().stream()
              .map(one -> new Entry(one.getPhysicSize(), one.getTagsCode()))
              .toList(),
          List.of(queue.getMinQueueIndex(), queue.getMaxQueueIndex()));
    }
  }

  private static List<String> find(Stage stage, String key, int max, long begin, long end)
      throws Exception {
    try {
      return stage.admin().queryMessage(stage.topic(), key, max, begin, end).getMessageList()
          .stream()
          .map(one -> new String(one.getBody(), StandardCharsets.UTF_8))
          .toList();
    } catch (MQClientException nothing) {
      return List.of();
    }
  }

  private static int code(Stage stage, String topic, String key) throws Exception {
    try {
      stage.admin().queryMessage(topic, key, MAX, 0, Long.MAX_VALUE);
      return 0;
    } catch (MQClientException refused) {
      return refused.getResponseCode();
    }
  }
}
