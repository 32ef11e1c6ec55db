package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A pull that waits for its message, and a message that the puller sends back. */
final class PullBlock {

  private static final int PULL_MESSAGES_MAX = 32;
  private static final int DELAY_LEVEL = 1;
  private static final long TIMEOUT_S = 60;

  private PullBlock() {}

  /** {@code early}: whether the pull was answered before the message was sent. */
  record Seen(boolean early, String status, Views.Received blocked, Views.Received back) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      DefaultMQPullConsumer consumer = stage.pullConsumer(stage.group());
      MessageQueue queue = stage.queues().get(0);
      var pulled =
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  return consumer.pullBlockIfNotFound(queue, "*", 0, PULL_MESSAGES_MAX);
                } catch (Exception failed) {
                  throw new IllegalStateException(failed);
                }
              });
      // The pull may reach the broker before or after the message: it has to be answered with it.
      consumer.maxOffset(queue);
      boolean early = pulled.isDone();
      stage.send(0, 1);
      PullResult result = pulled.get(TIMEOUT_S, TimeUnit.SECONDS);
      MessageExt message = result.getMsgFoundList().get(0);
      consumer.sendMessageBack(message, DELAY_LEVEL);
      String status = result.getPullStatus().name();
      return new Seen(early, status, Views.received(message), retried(stage, consumer));
    }
  }

  private static Views.Received retried(Stage stage, DefaultMQPullConsumer consumer)
      throws Exception {
    String topic = "%RETRY%" + stage.group();
    Pull.awaitTopic(consumer, topic);
    List<MessageQueue> queues = Pull.awaitMessages(consumer, topic, 1);
    List<MessageExt> stored = Pull.readAll(consumer, queues.get(0), new ArrayList<>());
    return Views.received(stored.get(0));
  }
}
