import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's push consumer in POP mode on a backlog: {@code NAMESRV BROKER TOPIC GROUP MEMBERS WARM
 * COUNT}. Prints "begin" after WARM messages, and "end SECONDS" after COUNT more.
 */
public final class PopLoad {

  private static final long CALL_MS = 10_000;

  /** Not 96: the client sleeps 50 ms whenever so many messages wait, which bounds every server. */
  private static final int THRESHOLD = 2_000;

  public static void main(String[] arguments) throws Exception {
    String namesrv = arguments[0], broker = arguments[1];
    String topic = arguments[2], group = arguments[3];
    int members = Integer.parseInt(arguments[4]);
    int warm = Integer.parseInt(arguments[5]), count = Integer.parseInt(arguments[6]);
    DefaultMQAdminExt admin = new DefaultMQAdminExt(CALL_MS);
    admin.setNamesrvAddr(namesrv);
    admin.start();
    SubscriptionGroupConfig config = new SubscriptionGroupConfig();
    config.setGroupName(group);
    admin.createAndUpdateSubscriptionGroupConfig(broker, config);
    admin.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, CALL_MS);
    AtomicInteger seen = new AtomicInteger();
    CountDownLatch done = new CountDownLatch(1);
    long[] begun = new long[1];
    MessageListenerConcurrently listener =
        (messages, context) -> {
          int before = seen.getAndAdd(messages.size()), after = before + messages.size();
          if (before < warm && after >= warm) {
            begun[0] = System.nanoTime();
            System.out.println("begin");
          }
          if (before < warm + count && after >= warm + count) {
            done.countDown();
          }
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    for (int i = 0; i < members; i++) {
      DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
      consumer.setNamesrvAddr(namesrv);
      consumer.setInstanceName("pop-" + i);
      consumer.setClientRebalance(false);
      consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
      consumer.setPopThresholdForQueue(THRESHOLD);
      consumer.subscribe(topic, "*");
      consumer.registerMessageListener(listener);
      consumer.start();
      consumers.add(consumer);
    }
    done.await();
    System.out.println("end " + (System.nanoTime() - begun[0]) / 1e9);
    Runtime.getRuntime().halt(0);
  }
}
