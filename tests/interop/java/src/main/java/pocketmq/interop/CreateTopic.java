package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Creates or changes a topic on every master of the cluster and waits until the route shows it.
 *
 * <p>Options: {@code --topic}, {@code --read-queues} (4), {@code --write-queues} (4),
 * {@code --perm} (6).
 */
final class CreateTopic {

  static final long ROUTE_TIMEOUT_MS = 60_000;

  private CreateTopic() {}

  record RouteQueues(String brokerName, int readQueues, int writeQueues, int perm) {}

  record Created(String topic, List<String> brokers, List<RouteQueues> route) {}

  static Created run(Options options) throws Exception {
    TopicConfig config =
        new TopicConfig(
            options.topic(),
            options.number("read-queues", 4),
            options.number("write-queues", 4),
            options.number("perm", 6));
    DefaultMQAdminExt admin = Clients.admin(options);
    try {
      List<String> masters = create(admin, config);
      return new Created(config.getTopicName(), masters, route(admin, config.getTopicName()));
    } finally {
      admin.shutdown();
    }
  }

  /** Returns the masters' addresses when the route shows the topic as it is wanted. */
  static List<String> create(DefaultMQAdminExt admin, TopicConfig config) throws Exception {
    List<String> masters = new ArrayList<>();
    for (var broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
      masters.add(broker.getBrokerAddrs().get(0L));
    }
    for (String address : masters) {
      admin.createAndUpdateTopicConfig(address, config);
    }
    Await.until(
        "route of " + config.getTopicName() + " on " + masters,
        ROUTE_TIMEOUT_MS,
        () -> shows(route(admin, config.getTopicName()), config, masters.size()));
    return masters;
  }

  /** The queue data of a topic's route; empty while the name server does not know the topic. */
  static List<RouteQueues> route(DefaultMQAdminExt admin, String topic) throws Exception {
    List<RouteQueues> queues = new ArrayList<>();
    try {
      for (var data : admin.examineTopicRouteInfo(topic).getQueueDatas()) {
        queues.add(
            new RouteQueues(
                data.getBrokerName(),
                data.getReadQueueNums(),
                data.getWriteQueueNums(),
                data.getPerm()));
      }
    } catch (MQClientException missing) {
      if (missing.getResponseCode() != Inspect.TOPIC_NOT_EXIST) {
        throw missing;
      }
    }
    return queues;
  }

  private static boolean shows(List<RouteQueues> route, TopicConfig config, int brokers) {
    return route.size() == brokers
        && route.stream()
            .allMatch(
                queues ->
                    queues.readQueues() == config.getReadQueueNums()
                        && queues.writeQueues() == config.getWriteQueueNums()
                        && queues.perm() == config.getPerm());
  }
}
