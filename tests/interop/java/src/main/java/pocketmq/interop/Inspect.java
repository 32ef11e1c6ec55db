package pocketmq.interop;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Asks what an operator asks: the cluster, a topic's route and statistics, a topic that is missing.
 *
 * <p>Options: {@code --topic}, {@code --missing-topic} (interop-no-such-topic).
 */
final class Inspect {

  /** The response code TOPIC_NOT_EXIST. */
  static final int TOPIC_NOT_EXIST = 17;

  private Inspect() {}

  record QueueStats(Views.Queue queue, long minOffset, long maxOffset, long lastUpdateTimestamp) {}

  record Seen(
      Map<String, List<String>> clusters,
      Map<String, Map<Long, String>> brokers,
      List<CreateTopic.RouteQueues> route,
      List<QueueStats> stats,
      int missingTopicCode,
      String missingTopicReason) {}

  static Seen run(Options options) throws Exception {
    DefaultMQAdminExt admin = Clients.admin(options);
    try {
      var cluster = admin.examineBrokerClusterInfo();
      Map<String, List<String>> clusters = new TreeMap<>();
      cluster
          .getClusterAddrTable()
          .forEach((name, members) -> clusters.put(name, members.stream().sorted().toList()));
      Map<String, Map<Long, String>> brokers = new TreeMap<>();
      cluster
          .getBrokerAddrTable()
          .forEach((name, data) -> brokers.put(name, new TreeMap<>(data.getBrokerAddrs())));
      MQClientException missing = askMissing(admin, options);
      return new Seen(
          clusters,
          brokers,
          CreateTopic.route(admin, options.topic()),
          stats(admin, options.topic()),
          missing.getResponseCode(),
          missing.getErrorMessage());
    } finally {
      admin.shutdown();
    }
  }

  private static List<QueueStats> stats(DefaultMQAdminExt admin, String topic) throws Exception {
    List<QueueStats> queues = new ArrayList<>();
    admin
        .examineTopicStats(topic)
        .getOffsetTable()
        .forEach(
            (queue, offsets) ->
                queues.add(
                    new QueueStats(
                        Views.queue(queue),
                        offsets.getMinOffset(),
                        offsets.getMaxOffset(),
                        offsets.getLastUpdateTimestamp())));
    queues.sort(
        Comparator.comparing((QueueStats stats) -> stats.queue().brokerName())
            .thenComparing(stats -> stats.queue().queueId()));
    return queues;
  }

  private static MQClientException askMissing(DefaultMQAdminExt admin, Options options)
      throws Exception {
    String topic = options.text("missing-topic", "interop-no-such-topic");
    try {
      admin.examineTopicRouteInfo(topic);
    } catch (MQClientException missing) {
      return missing;
    }
    throw new AssertionError("topic " + topic + " has a route, but must not exist");
  }
}
