package pocketmq.interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A listener sends each message on to another topic: the body alone, so that what else arrives there
 * was added by the client, or by an agent around it.
 *
 * <p>Options: {@code --topic}, {@code --to}, {@code --group}, {@code --expect} (1): how many messages.
 */
final class Forward {

  private Forward() {}

  record Seen(List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    String to = options.text("to");
    Inbox inbox = new Inbox();
    DefaultMQProducer producer = Clients.producer(options.with("group", "interop-forward"));
    DefaultMQPushConsumer consumer = Clients.pushConsumer(options, options.group());
    consumer.subscribe(options.topic(), "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              for (MessageExt message : messages) {
                try {
                  producer.send(new Message(to, message.getBody()));
                } catch (Exception failed) {
                  return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
              }
              inbox.add("forward", messages);
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    try {
      return new Seen(inbox.await("messages to forward", options.number("expect", 1)));
    } finally {
      consumer.shutdown();
      producer.shutdown();
    }
  }
}
