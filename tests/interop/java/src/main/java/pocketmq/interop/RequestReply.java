package pocketmq.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests that a consumer answers, waited for and with a callback, and one that nobody does. */
final class RequestReply {

  private static final String UNANSWERED = "unanswered";
  private static final long TIMEOUT_MS = 60_000;
  private static final long SHORT_MS = 500;

  private RequestReply() {}

  record Reply(String body, String tags, Map<String, String> properties) {}

  record Seen(Reply waited, Reply calledBack, String unanswered, List<Inbox.Delivery> requests) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 2)) {
      Inbox inbox = new Inbox();
      answerer(stage, inbox).start();
      DefaultMQProducer producer = stage.producer();
      Reply waited = reply(producer.request(stage.message("waited"), TIMEOUT_MS));
      CompletableFuture<Reply> calledBack = new CompletableFuture<>();
      producer.request(stage.message("called back"), completing(calledBack), TIMEOUT_MS);
      Reply second = calledBack.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
      String unanswered = "answered";
      try {
        producer.request(stage.message(UNANSWERED), SHORT_MS);
      } catch (RequestTimeoutException late) {
        unanswered = "timeout";
      }
      return new Seen(waited, second, unanswered, inbox.await("all requests", 3));
    }
  }

  private static DefaultMQPushConsumer answerer(Stage stage, Inbox inbox) throws Exception {
    DefaultMQProducer answers = Clients.producer(stage.options().with("group", "interop-answers"));
    stage.closeLater(answers::shutdown);
    DefaultMQPushConsumer consumer = stage.consumer(stage.group());
    consumer.subscribe(stage.topic(), "*");
    consumer.registerMessageListener(
        (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
          inbox.add("answerer", messages);
          for (MessageExt message : messages) {
            if (!message.getKeys().equals(UNANSWERED)) {
              answer(answers, message);
            }
          }
          return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    return consumer;
  }

  private static void answer(DefaultMQProducer answers, MessageExt request) {
    byte[] body = ("answer to " + request.getKeys()).getBytes(StandardCharsets.UTF_8);
    try {
      Message reply = MessageUtil.createReplyMessage(request, body);
      reply.setTags("answer");
      answers.send(reply);
    } catch (Exception failed) {
      throw new IllegalStateException(failed);
    }
  }

  private static Reply reply(Message message) {
    String body = new String(message.getBody(), StandardCharsets.UTF_8);
    return new Reply(body, message.getTags(), message.getProperties());
  }

  private static RequestCallback completing(CompletableFuture<Reply> answer) {
    return new RequestCallback() {
      @Override
      public void onSuccess(Message message) {
        answer.complete(reply(message));
      }

      @Override
      public void onException(Throwable failure) {
        answer.completeExceptionally(failure);
      }
    };
  }
}
