package pocketmq.interop;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * Two members of a group share a topic's queues; one leaves, and the other takes over.
 *
 * <p>Options: {@code --queues} (4), on each broker; the cluster's queues must be 4 in all.
 */
final class Clustering {

  private static final int QUEUES = 4;
  private static final int MESSAGES = 200;
  private static final int MESSAGES_LATER = 40;

  private Clustering() {}

  record Seen(
      Map<String, List<Views.Queue>> shares, int sent, List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, options.number("queues", QUEUES))) {
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer first = stage.member("first", inbox);
      DefaultMQPushConsumer second = stage.member("second", inbox);
      first.start();
      second.start();
      stage.awaitShare(first, QUEUES / 2);
      stage.awaitShare(second, QUEUES / 2);
      var shares = Map.of("first", stage.share(first), "second", stage.share(second));
      stage.send(0, MESSAGES);
      inbox.await("every message once", MESSAGES);
      stage.awaitHandled(second);
      second.shutdown();
      stage.awaitShare(first, QUEUES);
      stage.send(MESSAGES, MESSAGES + MESSAGES_LATER);
      int sent = MESSAGES + MESSAGES_LATER;
      return new Seen(shares, sent, inbox.await("the rest by the member that stayed", sent));
    }
  }
}
