package pocketmq.interop;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Subscriptions by tags and by SQL92, pushed and polled, and one that is no SQL. */
final class Filters {

  private static final int MESSAGES = 30;
  private static final List<String> COLOURS = List.of("red", "green", "blue");
  private static final String SQL =
      "(number BETWEEN 5 AND 14 AND colour IN ('red', 'blue')) OR TAGS = 'T9' OR extra IS NOT NULL";
  private static final String TAGS = "T1 || T2";
  private static final int MATCHES_OF_SQL = 10;
  private static final int MATCHES_OF_TAGS = 8;
  private static final String WRONG = "number > ";

  private Filters() {}

  record Seen(
      String sql,
      List<String> bySql,
      String tags,
      List<String> byTags,
      List<String> polledBySql,
      int wrongCode,
      String wrongReason) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 2)) {
      for (int i = 0; i < MESSAGES; i++) {
        stage.producer().send(message(stage, i), stage.queues().get(i % 2));
      }
      Inbox bySql = new Inbox();
      DefaultMQPushConsumer sql = stage.consumer(stage.group() + "-sql");
      sql.subscribe(stage.topic(), MessageSelector.bySql(SQL));
      Stage.accept(sql, "sql", bySql);
      sql.start();
      Inbox byTags = new Inbox();
      DefaultMQPushConsumer tags = stage.consumer(stage.group() + "-tags");
      tags.subscribe(stage.topic(), TAGS);
      Stage.accept(tags, "tags", byTags);
      tags.start();
      // The last messages match both: whoever has them has pulled all the others.
      awaitLast(bySql, MATCHES_OF_SQL);
      awaitLast(byTags, MATCHES_OF_TAGS);
      List<String> found = keys(bySql.all());
      MQClientException wrong = subscribeWrongly(stage);
      return new Seen(
          SQL,
          found,
          TAGS,
          keys(byTags.all()),
          poll(stage, found.size()),
          wrong.getResponseCode(),
          wrong.getErrorMessage());
    }
  }

  private static Message message(Stage stage, int number) {
    Message message = stage.message(Integer.toString(number));
    message.setTags("T" + number % 10);
    message.putUserProperty("number", Integer.toString(number));
    message.putUserProperty("colour", COLOURS.get(number % COLOURS.size()));
    if (number >= MESSAGES - 2) {
      message.setTags("T1");
      message.putUserProperty("extra", "yes");
    }
    return message;
  }

  /** Several threads consume: earlier messages may be delivered after the last. */
  private static void awaitLast(Inbox inbox, int count) throws Exception {
    List<String> last = List.of(Integer.toString(MESSAGES - 2), Integer.toString(MESSAGES - 1));
    inbox.await(
        count + " messages with the keys " + last + " among them",
        all -> all.size() >= count && keys(all).containsAll(last));
  }

  private static List<String> poll(Stage stage, int expected) throws Exception {
    Options options = stage.options().with("group", stage.group() + "-poll");
    DefaultLitePullConsumer consumer = LitePull.consumer(options);
    stage.closeLater(consumer::shutdown);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(stage.topic(), MessageSelector.bySql(SQL));
    consumer.start();
    return LitePull.poll(consumer, expected).stream().map(Views.Received::keys).toList();
  }

  private static MQClientException subscribeWrongly(Stage stage) throws Exception {
    DefaultMQPushConsumer consumer = stage.consumer(stage.group() + "-wrong");
    consumer.subscribe(stage.topic(), MessageSelector.bySql(WRONG));
    Stage.accept(consumer, "wrong", new Inbox());
    try {
      consumer.start();
    } catch (MQClientException refused) {
      return refused;
    }
    throw new AssertionError("a subscription by \"" + WRONG + "\" was accepted");
  }

  private static List<String> keys(List<Inbox.Delivery> deliveries) {
    return deliveries.stream().map(one -> one.message().keys()).toList();
  }
}
