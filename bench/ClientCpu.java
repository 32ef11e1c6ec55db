import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * What a message costs RocketMQ's Java client: {@code send|consume NAMESRV TOPIC WARM COUNT}. Prints
 * microseconds of the process's CPU for each of COUNT messages, after WARM ones.
 */
public final class ClientCpu {

  private static final int SENDERS = 64;

  public static void main(String[] arguments) throws Exception {
    String namesrv = arguments[1], topic = arguments[2];
    int warm = Integer.parseInt(arguments[3]), count = Integer.parseInt(arguments[4]);
    double spent =
        arguments[0].equals("send")
            ? send(namesrv, topic, warm, count)
            : consume(namesrv, topic, warm, count);
    System.out.println(spent / count / 1000);
    System.exit(0);
  }

  private static long cpuNanoseconds() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  private static double send(String namesrv, String topic, int warm, int count) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("bench-java");
    producer.setNamesrvAddr(namesrv);
    producer.start();
    sendAll(producer, topic, warm);
    long begun = cpuNanoseconds();
    sendAll(producer, topic, count);
    return cpuNanoseconds() - begun;
  }

  private static void sendAll(DefaultMQProducer producer, String topic, int count)
      throws InterruptedException {
    AtomicLong left = new AtomicLong(count);
    CountDownLatch done = new CountDownLatch(SENDERS);
    for (int i = 0; i < SENDERS; i++) {
      new Thread(
              () -> {
                try {
                  while (left.getAndDecrement() > 0) {
                    producer.send(new Message(topic, new byte[128]));
                  }
                } catch (Exception e) {
                  e.printStackTrace();
                  System.exit(1);
                }
                done.countDown();
              })
          .start();
    }
    done.await();
  }

  private static double consume(String namesrv, String topic, int warm, int count)
      throws Exception {
    AtomicLong seen = new AtomicLong(), begun = new AtomicLong();
    CountDownLatch done = new CountDownLatch(1);
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-java-" + System.nanoTime());
    consumer.setNamesrvAddr(namesrv);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              long now = seen.incrementAndGet();
              if (now == warm) {
                begun.set(cpuNanoseconds());
              } else if (now == warm + count) {
                begun.set(cpuNanoseconds() - begun.get());
                done.countDown();
              }
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    done.await();
    return begun.get();
  }
}
