package pocketmq.interop;

import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Writes, or reads and compares, the messages of a file that the other client knows too.
 *
 * <p>Options of both: {@code --topic}, {@code --messages FILE} (the format is described by
 * tests/interop/known_messages.py). Each message goes to the queue the file names, in file order,
 * so that reader and writer agree on the position of every one; the cluster has one broker.
 */
final class KnownMessages {

  private KnownMessages() {}

  /** One entry of the file; the body is {@code text} repeated {@code times}, or {@code hex}. */
  record Known(
      int queueId,
      String tags,
      String keys,
      int flag,
      Map<String, String> properties,
      String text,
      int times,
      String hex) {

    byte[] body() {
      if (hex != null) {
        return HexFormat.of().parseHex(hex);
      }
      return text.repeat(times).getBytes(StandardCharsets.UTF_8);
    }

    Message message(String topic) {
      Message message = new Message(topic, tags, keys, flag, body(), true);
      properties.forEach(message::putUserProperty);
      return message;
    }
  }

  record Produced(String topic, List<Views.Sent> sent) {}

  /** {@code differences} is empty when every known message was read back as it was written. */
  record Consumed(String topic, List<Views.Received> messages, List<String> differences) {}

  static Produced produce(Options options) throws Exception {
    List<Known> known = read(options.text("messages"));
    DefaultMQProducer producer = Clients.producer(options);
    try {
      List<Views.Sent> sent = new ArrayList<>();
      List<MessageQueue> queues = producer.fetchPublishMessageQueues(options.topic());
      for (Known one : known) {
        Message message = one.message(options.topic());
        Views.Outgoing outgoing = Views.outgoing(message);
        SendResult result = producer.send(message, queue(queues, one.queueId()));
        sent.add(new Views.Sent("known", outgoing, Views.result(result)));
      }
      return new Produced(options.topic(), sent);
    } finally {
      producer.shutdown();
    }
  }

  static Consumed consume(Options options) throws Exception {
    List<Known> known = read(options.text("messages"));
    DefaultMQPullConsumer consumer = Clients.pullConsumer(options);
    try {
      List<Views.Received> received = new ArrayList<>();
      List<String> differences = new ArrayList<>();
      List<MessageQueue> queues = Pull.awaitMessages(consumer, options.topic(), known.size());
      for (MessageQueue queue : queues) {
        List<MessageExt> stored = Pull.readAll(consumer, queue, new ArrayList<>());
        stored.forEach(message -> received.add(Views.received(message)));
        List<Known> expected =
            known.stream().filter(one -> one.queueId() == queue.getQueueId()).toList();
        compare(queue, expected, stored, differences);
      }
      return new Consumed(options.topic(), received, differences);
    } finally {
      consumer.shutdown();
    }
  }

  private static void compare(
      MessageQueue queue, List<Known> expected, List<MessageExt> stored, List<String> differences) {
    if (expected.size() != stored.size()) {
      differences.add(queue + ": " + stored.size() + " messages, expected " + expected.size());
      return;
    }
    for (int i = 0; i < stored.size(); i++) {
      Known known = expected.get(i);
      MessageExt message = stored.get(i);
      String where = queue + " offset " + message.getQueueOffset() + ": ";
      if (!Arrays.equals(known.body(), message.getBody())) {
        differences.add(where + "the body differs");
      }
      differ(where + "tags", orEmpty(known.tags()), orEmpty(message.getTags()), differences);
      differ(where + "keys", orEmpty(known.keys()), orEmpty(message.getKeys()), differences);
      differ(where + "flag", known.flag(), message.getFlag(), differences);
      known
          .properties()
          .forEach(
              (name, value) ->
                  differ(where + name, value, message.getUserProperty(name), differences));
    }
  }

  private static void differ(String what, Object expected, Object seen, List<String> differences) {
    if (!Objects.equals(expected, seen)) {
      differences.add(what + " is " + seen + ", expected " + expected);
    }
  }

  /** On the wire an absent tag or key and an empty one are the same. */
  private static String orEmpty(String value) {
    return value == null ? "" : value;
  }

  private static MessageQueue queue(List<MessageQueue> queues, int queueId) {
    return queues.stream()
        .filter(queue -> queue.getQueueId() == queueId)
        .findFirst()
        .orElseThrow(() -> new AssertionError("no queue " + queueId + " among " + queues));
  }

  private static List<Known> read(String file) throws Exception {
    TypeToken<List<Known>> type = new TypeToken<>() {};
    return new Gson().fromJson(Files.readString(Path.of(file)), type.getType());
  }
}
