package pocketmq.interop;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Two members of a group share the one queue of a topic: the broker says that they pop. One message
 * fails at first.
 */
final class Popping {

  private static final int MESSAGES = 200;
  private static final long CALL_MS = 10_000;

  private Popping() {}

  record Seen(List<Inbox.Delivery> deliveries, long lag) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      stage.createRetryTopic(stage.group());
      String address = broker(stage);
      Since5.createGroup(stage.admin(), address, stage.group());
      Since5.setPopMode(stage.admin(), address, stage.topic(), stage.group(), CALL_MS);
      Inbox inbox = new Inbox();
      // Whoever comes first keeps what it has until the other one has got some, too.
      Set<String> working = ConcurrentHashMap.newKeySet();
      CountDownLatch both = new CountDownLatch(2);
      for (String name : List.of("first", "second")) {
        DefaultMQPushConsumer consumer = stage.consumer(stage.group());
        Since5.leaveRebalancingToBrokers(consumer);
        consumer.subscribe(stage.topic(), "*");
        consumer.registerMessageListener(
            (List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
              if (working.add(name)) {
                both.countDown();
              }
              if (!Await.everybody(both, Inbox.TIMEOUT_MS / 2)) {
                throw new AssertionError("the other member gets nothing");
              }
              inbox.add(name, messages);
              return messages.get(0).getKeys().equals("0")
                      && messages.get(0).getReconsumeTimes() == 0
                  ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                  : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        consumer.start();
      }
      stage.send(0, MESSAGES);
      inbox.await("every message, and one again", MESSAGES + 1);
      Await.until("all is acknowledged", Inbox.TIMEOUT_MS, () -> lag(stage) == 0);
      return new Seen(inbox.all(), lag(stage));
    }
  }

  private static String broker(Stage stage) throws Exception {
    var route = stage.admin().examineTopicRouteInfo(stage.topic());
    return route.getBrokerDatas().get(0).selectBrokerAddr();
  }

  private static long lag(Stage stage) throws Exception {
    return stage.admin().examineConsumeStats(stage.group(), stage.topic()).computeTotalDiff();
  }
}
