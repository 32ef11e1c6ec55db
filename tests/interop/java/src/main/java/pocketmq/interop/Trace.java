package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer and a consumer with message trace on, and the records they leave behind. */
final class Trace {

  private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";
  private static final long TIMEOUT_MS = 60_000;
  private static final char FIELD = (char) 1;
  private static final char RECORD = (char) 2;

  private Trace() {}

  /** {@code records}: the fields of every trace record that names the message. */
  record Seen(String msgId, String topic, String group, List<List<String>> records) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      List<MessageExt> traces = new CopyOnWriteArrayList<>();
      readTraces(stage, traces);
      DefaultMQProducer producer = new DefaultMQProducer(stage.group(), Signing.hook(), true, null);
      Clients.prepare(producer, options, "traced");
      producer.setSendMsgTimeout(Clients.CALL_TIMEOUT_MS);
      producer.start();
      stage.closeLater(producer::shutdown);
      DefaultMQPushConsumer consumer =
          new DefaultMQPushConsumer(
              stage.group(),
              Signing.hook(),
              new AllocateMessageQueueAveragely(),
              true,
              null);
      Clients.prepared(consumer, options);
      stage.closeLater(consumer::shutdown);
      consumer.subscribe(stage.topic(), "*");
      Inbox inbox = new Inbox();
      Stage.accept(consumer, "traced", inbox);
      consumer.start();
      SendResult sent = producer.send(stage.message("traced"));
      inbox.await("the traced message", 1);
      List<List<String>> records = new ArrayList<>();
      Await.until(
          "what producer and consumer trace of " + sent.getMsgId(),
          TIMEOUT_MS,
          () -> {
            records.clear();
            records.addAll(about(sent.getMsgId(), traces));
            return records.stream().map(one -> one.get(0)).distinct().count() == 3;
          });
      return new Seen(sent.getMsgId(), stage.topic(), stage.group(), records);
    }
  }

  private static void readTraces(Stage stage, List<MessageExt> traces) throws Exception {
    DefaultMQPushConsumer reader = stage.consumer(stage.group() + "-traces");
    reader.subscribe(TRACE_TOPIC, "*");
    reader.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          traces.addAll(messages);
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    reader.start();
  }

  private static List<List<String>> about(String msgId, List<MessageExt> traces) {
    List<List<String>> found = new ArrayList<>();
    for (MessageExt trace : traces) {
      String text = new String(trace.getBody(), StandardCharsets.UTF_8);
      for (String record : text.split(String.valueOf(RECORD))) {
        List<String> fields = List.of(record.split(String.valueOf(FIELD), -1));
        if (fields.contains(msgId)) {
          found.add(fields);
        }
      }
    }
    return found;
  }
}
