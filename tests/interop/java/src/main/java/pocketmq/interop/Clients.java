package pocketmq.interop;

import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Started clients of every kind the probe uses, set up alike. */
final class Clients {

  /** A healthy cluster on loopback answers in milliseconds; what takes this long is a failure. */
  static final int CALL_TIMEOUT_MS = 10_000;

  private Clients() {}

  static DefaultMQAdminExt admin(Options options) throws Exception {
    DefaultMQAdminExt admin = new DefaultMQAdminExt(CALL_TIMEOUT_MS);
    prepare(admin, options, "admin");
    admin.start();
    return admin;
  }

  static DefaultMQProducer producer(Options options) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "interop-producer"));
    prepare(producer, options, "producer");
    producer.setSendMsgTimeout(CALL_TIMEOUT_MS);
    producer.start();
    return producer;
  }

  static DefaultMQPullConsumer pullConsumer(Options options) throws Exception {
    DefaultMQPullConsumer consumer =
        new DefaultMQPullConsumer(options.text("group", "interop-pull"));
    prepare(consumer, options, "pull");
    consumer.setConsumerPullTimeoutMillis(CALL_TIMEOUT_MS);
    consumer.start();
    return consumer;
  }

  /** Not started: what is subscribed must be set before. */
  static DefaultLitePullConsumer litePullConsumer(Options options) {
    DefaultLitePullConsumer consumer =
        new DefaultLitePullConsumer(options.text("group", "interop-lite"));
    prepare(consumer, options, "lite");
    consumer.setAutoCommit(false);
    return consumer;
  }

  /** Gives each client an instance name of its own, so that none shares connections. */
  private static void prepare(ClientConfig config, Options options, String role) {
    config.setNamesrvAddr(options.namesrv());
    config.setInstanceName("interop-" + role + "-" + ProcessHandle.current().pid());
    config.setVipChannelEnabled(false);
  }
}
