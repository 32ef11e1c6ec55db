package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * One started client of every kind, whose methods {@link Calls} calls: admin, producer,
 * transactions, push (which answers requests), pull, lite; and messages that are stored and
 * consumed.
 */
final class Cast {

  static final int QUEUES = 2;
  private static final int MESSAGES = 6;
  private static final long HOUR_MS = 3_600_000;
  private static final String REQUEST = "REPLY_TO_CLIENT";

  private final Stage stage;
  private final Map<String, Object> targets = new LinkedHashMap<>();
  private final Map<String, String> names = new LinkedHashMap<>();
  private final List<MessageExt> stored = new ArrayList<>();

  Cast(Stage stage) throws Exception {
    this.stage = stage;
    for (String suffix : List.of("", "-pull", "-lite")) {
      stage.createRetryTopic(stage.group() + suffix);
    }
    Inbox inbox = new Inbox();
    DefaultMQPushConsumer push = stage.consumer(stage.group());
    push.subscribe(stage.topic(), "*");
    listen(push, inbox);
    push.start();
    stage.send(0, MESSAGES);
    inbox.await("every message", MESSAGES);
    DefaultMQPullConsumer pull = stage.pullConsumer(stage.group() + "-pull");
    for (MessageQueue queue : stage.queues()) {
      stored.addAll(Pull.readAll(pull, queue, new ArrayList<>()));
    }
    awaitBrokersVersion(pull);
    targets.put("admin", stage.admin());
    targets.put("producer", stage.producer());
    targets.put("transactions", transactions());
    targets.put("push", push);
    targets.put("pull", pull);
    targets.put("lite", lite());
    for (String suffix : List.of("", "-pull", "-lite")) {
      awaitOnline(stage.group() + suffix);
    }
    fillNames(push);
  }

  Map<String, Object> targets() {
    return targets;
  }

  /** What stands for {@code {name}} in the text of an argument. */
  Map<String, String> names() {
    return names;
  }

  /** The first messages of the topic, by queue and offset. */
  List<MessageExt> stored() {
    return stored;
  }

  MessageQueue queue(int place) {
    return stage.queues().get(place);
  }

  Message message(String key) {
    return stage.message(key);
  }

  private void awaitOnline(String group) throws Exception {
    Await.until(
        "a heartbeat of " + group,
        Inbox.TIMEOUT_MS,
        () -> {
          try {
            return !stage.admin().examineConsumerConnectionInfo(group).getConnectionSet().isEmpty();
          } catch (MQBrokerException | MQClientException unknown) {
            return false;
          }
        });
  }

  /** A client selects by SQL only once an answer to a heartbeat told it the broker's version. */
  private void awaitBrokersVersion(DefaultMQPullConsumer pull) throws Exception {
    Await.until(
        "the broker's version",
        Inbox.TIMEOUT_MS,
        () -> {
          try {
            pull.pull(queue(0), MessageSelector.bySql("TRUE"), 0, 1);
            return true;
          } catch (MQClientException unknown) {
            return false;
          }
        });
  }

  private void fillNames(DefaultMQPushConsumer push) throws Exception {
    var cluster = stage.admin().examineBrokerClusterInfo();
    MessageQueue queue = queue(0);
    MessageExt first = stored.get(0);
    long now = System.currentTimeMillis();
    names.put("namesrv", stage.options().namesrv());
    names.put("cluster", cluster.getClusterAddrTable().keySet().iterator().next());
    names.put("brokerName", queue.getBrokerName());
    var broker = cluster.getBrokerAddrTable().get(queue.getBrokerName());
    names.put("broker", broker.getBrokerAddrs().get(0L));
    names.put("topic", stage.topic());
    names.put("group", stage.group());
    names.put("producerGroup", stage.producer().getProducerGroup());
    names.put("clientId", push.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId());
    names.put("msgId", first.getMsgId());
    names.put("offsetMsgId", Views.received(first).offsetMsgId());
    names.put("now", Long.toString(now));
    names.put("hourAgo", Long.toString(now - HOUR_MS));
    names.put("inAnHour", Long.toString(now + HOUR_MS));
  }

  private void listen(DefaultMQPushConsumer push, Inbox inbox) throws Exception {
    var answers = Clients.producer(stage.options().with("group", stage.group() + "-answers"));
    stage.closeLater(answers::shutdown);
    push.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          inbox.add("push", messages);
          for (MessageExt message : messages) {
            if (message.getProperty(REQUEST) != null) {
              byte[] body = ("answer to " + message.getKeys()).getBytes(StandardCharsets.UTF_8);
              try {
                answers.send(MessageUtil.createReplyMessage(message, body));
              } catch (Exception failed) {
                throw new IllegalStateException(failed);
              }
            }
          }
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
  }

  private TransactionMQProducer transactions() throws Exception {
    TransactionMQProducer producer = new TransactionMQProducer(stage.group() + "-transactions");
    Clients.prepare(producer, stage.options(), "transactions");
    producer.setSendMsgTimeout(Clients.CALL_TIMEOUT_MS);
    producer.setTransactionListener(
        new TransactionListener() {
          @Override
          public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.COMMIT_MESSAGE;
          }

          @Override
          public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.COMMIT_MESSAGE;
          }
        });
    producer.start();
    stage.closeLater(producer::shutdown);
    return producer;
  }

  private DefaultLitePullConsumer lite() throws Exception {
    var own = stage.options().with("group", stage.group() + "-lite");
    DefaultLitePullConsumer consumer = LitePull.consumer(own);
    stage.closeLater(consumer::shutdown);
    consumer.start();
    consumer.assign(stage.queues());
    return consumer;
  }
}
