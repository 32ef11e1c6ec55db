package pocketmq.interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.common.message.MessageExt;

/** Orderly listeners of two members, one of which joins and leaves while messages flow. */
final class Orderly {

  private static final int QUEUES = 4;
  private static final int STEP = QUEUES * 5;

  /** The client 4.9.x may keep a queue for 20 s that it has to give away. */
  private static final long PACE_MS = 20;

  private Orderly() {}

  record Seen(int sent, List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, QUEUES)) {
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer stays = member(stage, "stays", inbox);
      stays.start();
      stage.send(0, STEP);
      inbox.await("the first messages", STEP);
      DefaultMQPushConsumer guest = member(stage, "guest", inbox);
      guest.start();
      int sent = STEP;
      while (stage.share(guest).size() < QUEUES / 2 || stage.share(stays).size() > QUEUES / 2) {
        sent = send(stage, sent);
      }
      int joined = send(stage, sent);
      inbox.await("messages for the guest", all -> got(all, "guest", QUEUES));
      guest.shutdown();
      sent = joined;
      while (stage.share(stays).size() < QUEUES) {
        sent = send(stage, sent);
      }
      int end = send(stage, sent);
      return new Seen(end, inbox.await("every message", all -> distinct(all) == end));
    }
  }

  /** One more for each queue. */
  private static int send(Stage stage, int from) throws Exception {
    stage.send(from, from + QUEUES);
    Await.sleep(PACE_MS);
    return from + QUEUES;
  }

  private static boolean got(List<Inbox.Delivery> deliveries, String member, int count) {
    return deliveries.stream().filter(one -> one.member().equals(member)).count() >= count;
  }

  private static long distinct(List<Inbox.Delivery> deliveries) {
    return deliveries.stream().map(one -> one.message().keys()).distinct().count();
  }

  private static DefaultMQPushConsumer member(Stage stage, String name, Inbox inbox)
      throws Exception {
    DefaultMQPushConsumer consumer = stage.consumer(stage.group());
    consumer.subscribe(stage.topic(), "*");
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeOrderlyContext context) -> {
          inbox.add(name, messages);
          return ConsumeOrderlyStatus.SUCCESS;
        });
    return consumer;
  }
}
