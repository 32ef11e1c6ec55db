package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What a scenario plays on: a new topic, a producer, an operator and consumers; it closes what it
 * opened, the last first.
 */
final class Stage implements AutoCloseable {

  private static final long SHARE_TIMEOUT_MS = 60_000;
  private static final int READ_WRITE = 6;

  private final Options options;
  private final Deque<Runnable> closing = new ArrayDeque<>();
  private final DefaultMQAdminExt admin;
  private final DefaultMQProducer producer;
  private final List<MessageQueue> queues;

  Stage(Options options, int queueCount) throws Exception {
    this.options = options;
    admin = Clients.admin(options);
    closing.push(admin::shutdown);
    createTopic(options.topic(), queueCount);
    producer = Clients.producer(options.with("group", options.group() + "-producer"));
    closing.push(producer::shutdown);
    queues = producer.fetchPublishMessageQueues(options.topic()).stream().sorted().toList();
  }

  Options options() {
    return options;
  }

  String topic() {
    return options.topic();
  }

  String group() {
    return options.group();
  }

  DefaultMQAdminExt admin() {
    return admin;
  }

  DefaultMQProducer producer() {
    return producer;
  }

  /** The topic's queues, in order. */
  List<MessageQueue> queues() {
    return queues;
  }

  void createTopic(String topic, int queueCount) throws Exception {
    CreateTopic.create(admin, new TopicConfig(topic, queueCount, queueCount, READ_WRITE));
  }

  /**
   * Creates a group's retry topic before the group does: a client that finds none when it starts
   * asks for its route again after 30 s only.
   */
  void createRetryTopic(String group) throws Exception {
    createTopic("%RETRY%" + group, 1);
  }

  /** Has something shut down at the end. */
  void closeLater(Runnable close) {
    closing.push(close);
  }

  /** A push consumer that is neither subscribed nor started. */
  DefaultMQPushConsumer consumer(String group) {
    DefaultMQPushConsumer consumer = Clients.pushConsumer(options, group);
    closing.push(consumer::shutdown);
    return consumer;
  }

  /** A push consumer of the stage's topic and group whose listener accepts everything. */
  DefaultMQPushConsumer member(String name, Inbox inbox) throws Exception {
    DefaultMQPushConsumer consumer = consumer(group());
    consumer.subscribe(topic(), "*");
    accept(consumer, name, inbox);
    return consumer;
  }

  static void accept(DefaultMQPushConsumer consumer, String name, Inbox inbox) {
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          inbox.add(name, messages);
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
  }

  DefaultMQPullConsumer pullConsumer(String group) throws Exception {
    DefaultMQPullConsumer consumer = Clients.pullConsumer(options.with("group", group));
    closing.push(consumer::shutdown);
    return consumer;
  }

  /** A message whose key is the only thing that tells it from the others. */
  Message message(String key) {
    return new Message(topic(), null, key, key.getBytes(StandardCharsets.UTF_8));
  }

  /** Sends messages with the keys {@code from} to {@code to - 1}, round the queues. */
  void send(int from, int to) throws Exception {
    for (int i = from; i < to; i++) {
      producer.send(message(Integer.toString(i)), queues.get(i % queues.size()));
    }
  }

  /** The queues of the stage's topic that a consumer has now. */
  List<Views.Queue> share(DefaultMQPushConsumer consumer) {
    return consumer
        .getDefaultMQPushConsumerImpl()
        .getRebalanceImpl()
        .getProcessQueueTable()
        .keySet()
        .stream()
        .filter(queue -> queue.getTopic().equals(topic()))
        .sorted()
        .map(Views::queue)
        .toList();
  }

  void awaitShare(DefaultMQPushConsumer consumer, int queueCount) throws Exception {
    Await.until(
        queueCount + " queues for a member of " + consumer.getConsumerGroup(),
        SHARE_TIMEOUT_MS,
        () -> share(consumer).size() == queueCount);
  }

  /**
   * Waits until a member has handled all that its queues hold: a listener has a message before its
   * consumer counts it, and who leaves in between leaves it to another member.
   */
  void awaitHandled(DefaultMQPushConsumer consumer) throws Exception {
    var member = consumer.getDefaultMQPushConsumerImpl();
    Await.until(
        "all messages handled by a member of " + consumer.getConsumerGroup(),
        SHARE_TIMEOUT_MS,
        () -> {
          for (MessageQueue queue : member.getRebalanceImpl().getProcessQueueTable().keySet()) {
            long next =
                member.getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_MEMORY);
            boolean isOfTopic = queue.getTopic().equals(topic());
            if (isOfTopic && next != admin.maxOffset(queue)) {
              return false;
            }
          }
          return true;
        });
  }

  @Override
  public void close() {
    while (!closing.isEmpty()) {
      closing.pop().run();
    }
  }
}
