package pocketmq.interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.message.MessageExt;

/** Two members that each get everything; one comes back and goes on where it was. */
final class Broadcasting {

  private static final int QUEUES = 2;
  private static final int MESSAGES = 20;

  private Broadcasting() {}

  record Seen(int sent, List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, QUEUES)) {
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer first = member(stage, "first", inbox);
      DefaultMQPushConsumer second = member(stage, "second", inbox);
      first.start();
      second.start();
      stage.send(0, MESSAGES);
      inbox.await("every message for both", 2 * MESSAGES);
      stage.awaitHandled(second);
      second.shutdown();
      stage.send(MESSAGES, 2 * MESSAGES);
      inbox.await("the next ones for the first", 3 * MESSAGES);
      DefaultMQPushConsumer again = member(stage, "second again", inbox);
      // Its offsets are in a file of this machine whose name is made from that of the instance.
      again.setInstanceName(second.getInstanceName());
      again.start();
      return new Seen(2 * MESSAGES, inbox.await("what it missed, for the second", 4 * MESSAGES));
    }
  }

  /** Its listener fails always: nobody sends a broadcast message back. */
  private static DefaultMQPushConsumer member(Stage stage, String name, Inbox inbox)
      throws Exception {
    DefaultMQPushConsumer consumer = stage.consumer(stage.group());
    // The enumeration is in another package in 4.9.x: this names neither.
    var model = consumer.getMessageModel().getDeclaringClass();
    consumer.setMessageModel(Enum.valueOf(model, "BROADCASTING"));
    consumer.subscribe(stage.topic(), "*");
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          inbox.add(name, messages);
          return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
    return consumer;
  }
}
