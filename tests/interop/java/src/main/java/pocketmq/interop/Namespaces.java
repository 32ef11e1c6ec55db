package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Producer and consumer in a namespace: the client puts it before the names it sends ({@code v1}),
 * or sends it beside them ({@code v2}, 5.x only).
 *
 * <p>Options: {@code --versions} (v1,v2).
 */
final class Namespaces {

  private Namespaces() {}

  /** {@code writtenTopics}: those of the two names of its topic that got the message. */
  record Spoken(
      String version,
      String namespace,
      List<String> writtenTopics,
      List<Inbox.Delivery> deliveries) {}

  static List<Spoken> run(Options options) throws Exception {
    List<Spoken> spoken = new ArrayList<>();
    try (Stage stage = new Stage(options, 1)) {
      for (String version : options.text("versions", "v1,v2").split(",")) {
        spoken.add(speak(stage, version));
      }
    }
    return spoken;
  }

  private static Spoken speak(Stage stage, String version) throws Exception {
    String namespace = "space-" + stage.group();
    String topic = stage.topic() + "-" + version;
    stage.createTopic(topic, 1);
    stage.createTopic(namespace + "%" + topic, 1);
    DefaultMQProducer producer = new DefaultMQProducer(stage.group());
    Clients.prepare(producer, stage.options(), "namespace");
    DefaultMQPushConsumer consumer = stage.consumer(stage.group() + "-" + version);
    if (version.equals("v1")) {
      producer.setNamespace(namespace);
      consumer.setNamespace(namespace);
    } else {
      Since5.setNamespaceV2(producer, namespace);
      Since5.setNamespaceV2(consumer, namespace);
    }
    producer.setSendMsgTimeout(Clients.CALL_TIMEOUT_MS);
    producer.start();
    stage.closeLater(producer::shutdown);
    producer.send(new Message(topic, null, version, version.getBytes(StandardCharsets.UTF_8)));
    Inbox inbox = new Inbox();
    consumer.subscribe(topic, "*");
    Stage.accept(consumer, version, inbox);
    consumer.start();
    List<Inbox.Delivery> deliveries = inbox.await("the message in the namespace", 1);
    List<String> written = new ArrayList<>();
    for (String name : List.of(topic, namespace + "%" + topic)) {
      var offsets = stage.admin().examineTopicStats(name).getOffsetTable().values();
      if (offsets.stream().anyMatch(range -> range.getMaxOffset() > 0)) {
        written.add(name);
      }
    }
    return new Spoken(version, namespace, written, deliveries);
  }
}
