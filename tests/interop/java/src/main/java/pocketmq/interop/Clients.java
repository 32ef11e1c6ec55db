package pocketmq.interop;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Started clients of every kind the probe uses, set up alike. */
final class Clients {

  /**
   * A healthy cluster on loopback answers in milliseconds, but a machine that runs twenty other
   * things may take a JVM's processor away for seconds.
   */
  static final int CALL_TIMEOUT_MS = 30_000;

  /** The probe runs many consumers at once, each of which would start 20 threads. */
  private static final int CONSUME_THREADS = 4;

  /**
   * Instead of 30 s. A consumer whose rebalance meets its own heartbeat does not send the one that
   * tells of the new version of its subscription, and every pull is refused until the next.
   */
  private static final int BEAT_MS = 1000;

  private static final AtomicInteger COUNT = new AtomicInteger();

  private Clients() {}

  static DefaultMQAdminExt admin(Options options) throws Exception {
    DefaultMQAdminExt admin = new DefaultMQAdminExt(Signing.hook(), CALL_TIMEOUT_MS);
    prepare(admin, options, "admin");
    admin.start();
    return admin;
  }

  static DefaultMQProducer producer(Options options) throws Exception {
    DefaultMQProducer producer =
        new DefaultMQProducer(options.text("group", "interop-producer"), Signing.hook());
    prepare(producer, options, "producer");
    producer.setSendMsgTimeout(CALL_TIMEOUT_MS);
    producer.start();
    return producer;
  }

  static DefaultMQPullConsumer pullConsumer(Options options) throws Exception {
    DefaultMQPullConsumer consumer =
        new DefaultMQPullConsumer(options.text("group", "interop-pull"), Signing.hook());
    prepare(consumer, options, "pull");
    consumer.setConsumerPullTimeoutMillis(CALL_TIMEOUT_MS);
    consumer.start();
    return consumer;
  }

  /** Not started: what is subscribed and who listens must be set before. */
  static DefaultMQPushConsumer pushConsumer(Options options, String group) {
    return prepared(
        new DefaultMQPushConsumer(group, Signing.hook(), new AllocateMessageQueueAveragely()),
        options);
  }

  static DefaultMQPushConsumer prepared(DefaultMQPushConsumer consumer, Options options) {
    prepare(consumer, options, "push");
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setConsumeThreadMin(CONSUME_THREADS);
    consumer.setConsumeThreadMax(CONSUME_THREADS);
    return consumer;
  }

  /** Gives each client an instance name of its own, so that none shares connections. */
  static void prepare(ClientConfig config, Options options, String role) {
    config.setNamesrvAddr(options.namesrv());
    long pid = ProcessHandle.current().pid();
    config.setInstanceName("interop-" + role + "-" + pid + "-" + COUNT.incrementAndGet());
    config.setHeartbeatBrokerInterval(BEAT_MS);
    config.setPollNameServerInterval(BEAT_MS);
    try {
      // Of routes, offsets and the like; else 3 s.
      config.setMqClientApiTimeout(CALL_TIMEOUT_MS);
    } catch (NoSuchMethodError old) {
      // Clients before 4.7 have no choice.
      return;
    }
  }
}
