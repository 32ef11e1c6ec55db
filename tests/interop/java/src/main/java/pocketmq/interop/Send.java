package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends messages in the forms the Java producer has.
 *
 * <p>Options: {@code --topic}, {@code --forms} (all, comma separated).
 */
final class Send {

  /** One way to send; it sends one or more messages and tells what became of each. */
  private interface Form {
    List<Views.Sent> send(DefaultMQProducer producer, String topic) throws Exception;
  }

  private static final Map<String, Form> FORMS = new LinkedHashMap<>();

  static {
    FORMS.put("sync", Send::sync);
    FORMS.put("async", Send::async);
    FORMS.put("one-way", Send::oneWay);
    FORMS.put("batch", Send::batch);
    FORMS.put("queue", Send::toQueue);
    FORMS.put("selector", Send::bySelector);
    FORMS.put("compressed", Send::compressed);
    FORMS.put("non-ascii", Send::nonAscii);
  }

  private Send() {}

  record Seen(String topic, List<Views.Sent> sent) {}

  static Seen run(Options options) throws Exception {
    String[] chosen = options.text("forms", String.join(",", FORMS.keySet())).split(",");
    List<Views.Sent> sent = new ArrayList<>();
    DefaultMQProducer producer = Clients.producer(options);
    try {
      for (String name : chosen) {
        Form form = FORMS.get(name);
        if (form == null) {
          throw new Options.UsageException("--forms knows " + FORMS.keySet() + ", not " + name);
        }
        sent.addAll(form.send(producer, options.topic()));
      }
    } finally {
      producer.shutdown();
    }
    return new Seen(options.topic(), sent);
  }

  private static List<Views.Sent> sync(DefaultMQProducer producer, String topic) throws Exception {
    Message plain = new Message(topic, text("sync plain"));
    Message full = new Message(topic, "TagA", "sync-1 sync-2", 7, text("sync full"), true);
    full.putUserProperty("colour", "blue");
    full.putUserProperty("with blank", "a b=c;d");
    List<Views.Sent> sent = new ArrayList<>();
    for (Message message : List.of(plain, full)) {
      Views.Outgoing outgoing = Views.outgoing(message);
      sent.add(new Views.Sent("sync", outgoing, Views.result(producer.send(message))));
    }
    return sent;
  }

  private static List<Views.Sent> async(DefaultMQProducer producer, String topic)
      throws Exception {
    List<Views.Outgoing> outgoing = new ArrayList<>();
    List<CompletableFuture<SendResult>> answers = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Message message = new Message(topic, "TagB", "async-" + i, text("async " + i));
      outgoing.add(Views.outgoing(message));
      CompletableFuture<SendResult> answer = new CompletableFuture<>();
      producer.send(message, completing(answer));
      answers.add(answer);
    }
    List<Views.Sent> sent = new ArrayList<>();
    for (int i = 0; i < answers.size(); i++) {
      SendResult result = answers.get(i).get(Clients.CALL_TIMEOUT_MS, TimeUnit.MILLISECONDS);
      sent.add(new Views.Sent("async", outgoing.get(i), Views.result(result)));
    }
    return sent;
  }

  private static List<Views.Sent> oneWay(DefaultMQProducer producer, String topic)
      throws Exception {
    Message message = new Message(topic, "TagA", "one-way", text("one way"));
    Views.Outgoing outgoing = Views.outgoing(message);
    producer.sendOneway(message);
    return List.of(new Views.Sent("one-way", outgoing, null));
  }

  /** One request, one result: its ids are comma lists, so each message shows the same result. */
  private static List<Views.Sent> batch(DefaultMQProducer producer, String topic)
      throws Exception {
    List<Message> messages = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Message message = new Message(topic, "TagBatch", "batch-" + i, text("batch " + i));
      message.putUserProperty("position", Integer.toString(i));
      messages.add(message);
    }
    List<Views.Outgoing> outgoing = messages.stream().map(Views::outgoing).toList();
    Views.Result result = Views.result(producer.send(messages));
    return outgoing.stream().map(one -> new Views.Sent("batch", one, result)).toList();
  }

  private static List<Views.Sent> toQueue(DefaultMQProducer producer, String topic)
      throws Exception {
    List<Views.Sent> sent = new ArrayList<>();
    List<MessageQueue> queues = queues(producer, topic);
    for (MessageQueue queue : queues) {
      Message message = new Message(topic, "TagQueue", "", text("queue " + queue.getQueueId()));
      Views.Outgoing outgoing = Views.outgoing(message);
      sent.add(new Views.Sent("queue", outgoing, Views.result(producer.send(message, queue))));
    }
    return sent;
  }

  /** Waits for the route: a broker registers a topic after it has taken its first message. */
  private static List<MessageQueue> queues(DefaultMQProducer producer, String topic)
      throws Exception {
    List<MessageQueue> queues = new ArrayList<>();
    Await.until(
        "route of " + topic,
        CreateTopic.ROUTE_TIMEOUT_MS,
        () -> {
          try {
            return queues.addAll(producer.fetchPublishMessageQueues(topic));
          } catch (MQClientException noRoute) {
            return false;
          }
        });
    return queues;
  }

  private static List<Views.Sent> bySelector(DefaultMQProducer producer, String topic)
      throws Exception {
    List<Views.Sent> sent = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      Message message = new Message(topic, "TagOrder", "order-" + i, text("order " + i));
      Views.Outgoing outgoing = Views.outgoing(message);
      SendResult result =
          producer.send(
              message,
              (queues, asked, key) -> queues.get(((Integer) key) % queues.size()),
              Integer.valueOf(1));
      sent.add(new Views.Sent("selector", outgoing, Views.result(result)));
    }
    return sent;
  }

  /** Above 4 KiB the producer compresses the body (sysFlag bit 0). */
  private static List<Views.Sent> compressed(DefaultMQProducer producer, String topic)
      throws Exception {
    Message message = new Message(topic, "TagA", "compressed", text("0123456789".repeat(1000)));
    Views.Outgoing outgoing = Views.outgoing(message);
    return List.of(new Views.Sent("compressed", outgoing, Views.result(producer.send(message))));
  }

  private static List<Views.Sent> nonAscii(DefaultMQProducer producer, String topic)
      throws Exception {
    Message message = new Message(topic, "Étiquette", "clé-Ω", text("größe 消息 \uD83D\uDE00"));
    message.putUserProperty("città", "東京");
    Views.Outgoing outgoing = Views.outgoing(message);
    return List.of(new Views.Sent("non-ascii", outgoing, Views.result(producer.send(message))));
  }

  private static SendCallback completing(CompletableFuture<SendResult> answer) {
    return new SendCallback() {
      @Override
      public void onSuccess(SendResult result) {
        answer.complete(result);
      }

      @Override
      public void onException(Throwable failure) {
        answer.completeExceptionally(failure);
      }
    };
  }

  private static byte[] text(String body) {
    return body.getBytes(StandardCharsets.UTF_8);
  }
}
