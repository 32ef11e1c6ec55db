package pocketmq.interop;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * What an operator does with a consumer that runs: looks at its connections and its inside, has it
 * consume one message again, sets the group's offsets back.
 */
final class Operator {

  private static final int MESSAGES = 10;
  private static final int QUEUES = 2;

  private Operator() {}

  record Running(
      String consumeType, List<String> subscriptions, List<Views.Queue> queues, boolean stacks) {}

  record Seen(
      String topic,
      String group,
      String clientId,
      Map<String, String> connections,
      List<String> connectedSubscriptions,
      Running running,
      String directly,
      List<Inbox.Delivery> again,
      Map<String, Long> resetTo,
      Set<String> afterReset) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, QUEUES)) {
      DefaultMQAdminExt admin = stage.admin();
      stage.createRetryTopic(stage.group());
      Inbox inbox = new Inbox();
      DefaultMQPushConsumer consumer = stage.member("live", inbox);
      consumer.start();
      stage.send(0, MESSAGES);
      List<Inbox.Delivery> first = inbox.await("every message", MESSAGES);
      Map<String, String> connections = new TreeMap<>();
      var connected = admin.examineConsumerConnectionInfo(stage.group());
      connected
          .getConnectionSet()
          .forEach(one -> connections.put(one.getClientId(), one.getLanguage().name()));
      String clientId = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
      Running running = running(admin, stage, clientId);
      String msgId = first.get(0).message().offsetMsgId();
      var directly = admin.consumeMessageDirectly(stage.group(), clientId, stage.topic(), msgId);
      List<Inbox.Delivery> again = inbox.await("one message again", MESSAGES + 1);
      Map<String, Long> resetTo = new TreeMap<>();
      admin
          .resetOffsetByTimestamp(stage.topic(), stage.group(), 0, true)
          .forEach((queue, offset) -> resetTo.put(Integer.toString(queue.getQueueId()), offset));
      // A pull that the broker holds hears of it only when it ends: the next messages end it.
      stage.send(MESSAGES, MESSAGES + QUEUES);
      List<Inbox.Delivery> all =
          inbox.await("all of them again", every -> again(every).size() == MESSAGES + QUEUES);
      return new Seen(
          stage.topic(),
          stage.group(),
          clientId,
          connections,
          connected.getSubscriptionTable().keySet().stream().sorted().toList(),
          running,
          directly.getConsumeResult().name(),
          again.subList(MESSAGES, MESSAGES + 1),
          resetTo,
          again(all));
    }
  }

  /** The keys of what came after the first messages and the one that came directly. */
  private static Set<String> again(List<Inbox.Delivery> deliveries) {
    return deliveries.stream()
        .skip(MESSAGES + 1)
        .map(one -> one.message().keys())
        .collect(Collectors.toSet());
  }

  private static Running running(DefaultMQAdminExt admin, Stage stage, String clientId)
      throws Exception {
    var info = admin.getConsumerRunningInfo(stage.group(), clientId, true);
    return new Running(
        info.getProperties().getProperty("PROP_CONSUME_TYPE"),
        info.getSubscriptionSet().stream().map(one -> one.getTopic()).sorted().toList(),
        info.getMqTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(stage.topic()))
            .sorted()
            .map(Views::queue)
            .toList(),
        info.getJstack().contains("PullMessageService"));
  }
}
