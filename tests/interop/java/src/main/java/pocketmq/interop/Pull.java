package pocketmq.interop;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads a topic from its beginning with DefaultMQPullConsumer, and asks each queue all it can.
 *
 * <p>Options: {@code --topic}, {@code --expect} (0): how many messages must be there before it
 * starts, {@code --group}, {@code --tag} (TagA): for the filtered pull.
 */
final class Pull {

  private static final int PULL_MESSAGES_MAX = 32;
  private static final long EXPECT_TIMEOUT_MS = 60_000;

  /** Further than one beyond the end: the broker calls that illegal, not merely empty. */
  private static final long FAR = 10;

  private Pull() {}

  /** The answer to one pull. */
  record Answer(
      String status,
      long askedOffset,
      long nextBeginOffset,
      long minOffset,
      long maxOffset,
      int messages) {}

  /** {@code found} is what searchOffset says for {@code timestamp}. */
  record Search(long timestamp, long found) {}

  record Committed(long before, long afterCommit, long committed) {}

  record QueueSeen(
      Views.Queue queue,
      long minOffset,
      long maxOffset,
      long earliestStoreTimestamp,
      List<Views.Received> messages,
      List<Answer> pulls,
      Answer pullAtEnd,
      Answer pullBeyondEnd,
      List<Long> offsetsWithTag,
      List<Search> searches,
      Committed offsets) {}

  /** {@code viewed}: offsetMsgId to the message that viewMessage returned for it. */
  record Seen(String topic, List<QueueSeen> queues, Map<String, Views.Received> viewed) {}

  static Seen run(Options options) throws Exception {
    DefaultMQPullConsumer consumer = Clients.pullConsumer(options);
    try {
      List<MessageQueue> queues =
          awaitMessages(consumer, options.topic(), options.number("expect", 0));
      List<QueueSeen> seen = new ArrayList<>();
      Map<String, Views.Received> viewed = new TreeMap<>();
      for (MessageQueue queue : queues) {
        QueueSeen one = readQueue(consumer, queue, options);
        seen.add(one);
        for (Views.Received message : one.messages()) {
          MessageExt found = consumer.viewMessage(message.topic(), message.offsetMsgId());
          viewed.put(message.offsetMsgId(), Views.received(found));
        }
      }
      return new Seen(options.topic(), seen, viewed);
    } finally {
      consumer.shutdown();
    }
  }

  /** One-way sends arrive in their own time: wait until the queues hold what was sent. */
  static List<MessageQueue> awaitMessages(
      DefaultMQPullConsumer consumer, String topic, int expected) throws Exception {
    List<MessageQueue> queues =
        consumer.fetchSubscribeMessageQueues(topic).stream().sorted().toList();
    Await.until(
        expected + " messages in " + topic,
        EXPECT_TIMEOUT_MS,
        () -> {
          long stored = 0;
          for (MessageQueue queue : queues) {
            stored += consumer.maxOffset(queue) - consumer.minOffset(queue);
          }
          return stored >= expected;
        });
    return queues;
  }

  /** Waits until the name servers know a topic that somebody else creates. */
  static void awaitTopic(DefaultMQPullConsumer consumer, String topic) throws Exception {
    Await.until(
        "route of " + topic,
        EXPECT_TIMEOUT_MS,
        () -> {
          try {
            return !consumer.fetchSubscribeMessageQueues(topic).isEmpty();
          } catch (MQClientException unknown) {
            return false;
          }
        });
  }

  /** All messages of a queue; the answer to each pull is added to {@code answers}. */
  static List<MessageExt> readAll(
      DefaultMQPullConsumer consumer, MessageQueue queue, List<Answer> answers) throws Exception {
    List<MessageExt> messages = new ArrayList<>();
    long end = consumer.maxOffset(queue);
    long offset = consumer.minOffset(queue);
    while (offset < end) {
      PullResult result = consumer.pull(queue, "*", offset, PULL_MESSAGES_MAX);
      answers.add(answer(offset, result));
      if (result.getPullStatus() != PullStatus.FOUND) {
        throw new AssertionError(queue + " at offset " + offset + " of " + end + ": " + result);
      }
      messages.addAll(result.getMsgFoundList());
      offset = result.getNextBeginOffset();
    }
    return messages;
  }

  private static QueueSeen readQueue(
      DefaultMQPullConsumer consumer, MessageQueue queue, Options options) throws Exception {
    long min = consumer.minOffset(queue);
    long max = consumer.maxOffset(queue);
    List<Answer> answers = new ArrayList<>();
    List<MessageExt> messages = readAll(consumer, queue, answers);
    return new QueueSeen(
        Views.queue(queue),
        min,
        max,
        messages.isEmpty() ? -1 : consumer.earliestMsgStoreTime(queue),
        messages.stream().map(Views::received).toList(),
        answers,
        pull(consumer, queue, "*", max),
        pull(consumer, queue, "*", max + FAR),
        withTag(consumer, queue, options.text("tag", "TagA"), min, max),
        search(consumer, queue, messages),
        commit(consumer, queue, max));
  }

  private static Answer pull(
      DefaultMQPullConsumer consumer, MessageQueue queue, String tags, long offset)
      throws Exception {
    return answer(offset, consumer.pull(queue, tags, offset, PULL_MESSAGES_MAX));
  }

  private static List<Long> withTag(
      DefaultMQPullConsumer consumer, MessageQueue queue, String tag, long min, long max)
      throws Exception {
    List<Long> offsets = new ArrayList<>();
    long offset = min;
    while (offset < max) {
      PullResult result = consumer.pull(queue, tag, offset, PULL_MESSAGES_MAX);
      if (result.getPullStatus() == PullStatus.FOUND) {
        result.getMsgFoundList().forEach(message -> offsets.add(message.getQueueOffset()));
      }
      if (result.getNextBeginOffset() <= offset) {
        throw new AssertionError(queue + " with " + tag + " does not advance: " + result);
      }
      offset = result.getNextBeginOffset();
    }
    return offsets;
  }

  /** Searches at every store time, before the first and after the last. */
  private static List<Search> search(
      DefaultMQPullConsumer consumer, MessageQueue queue, List<MessageExt> messages)
      throws Exception {
    List<Long> times = new ArrayList<>();
    messages.stream().map(MessageExt::getStoreTimestamp).sorted().forEach(times::add);
    if (!times.isEmpty()) {
      times.add(0, times.get(0) - 1);
      times.add(times.get(times.size() - 1) + 1);
    }
    List<Search> searches = new ArrayList<>();
    for (long time : times) {
      searches.add(new Search(time, consumer.searchOffset(queue, time)));
    }
    return searches;
  }

  /** Commits the end of the queue and reads it back from the broker; −1 means nothing stored. */
  private static Committed commit(DefaultMQPullConsumer consumer, MessageQueue queue, long end)
      throws Exception {
    long before = consumer.fetchConsumeOffset(queue, true);
    // The client sends the commit one-way: nobody tells it when that was late or got lost. A query
    // puts what it found into the client's own table.
    Await.until(
        "committed offset " + end + " of " + queue,
        EXPECT_TIMEOUT_MS,
        () -> {
          consumer.updateConsumeOffset(queue, end);
          consumer.getOffsetStore().persist(queue);
          return consumer.fetchConsumeOffset(queue, true) == end;
        });
    return new Committed(before, consumer.fetchConsumeOffset(queue, true), end);
  }

  private static Answer answer(long offset, PullResult result) {
    int messages = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
    return new Answer(
        result.getPullStatus().name(),
        offset,
        result.getNextBeginOffset(),
        result.getMinOffset(),
        result.getMaxOffset(),
        messages);
  }

  static final Comparator<Views.Received> BY_POSITION =
      Comparator.comparing(Views.Received::brokerName)
          .thenComparing(Views.Received::queueId)
          .thenComparing(Views.Received::queueOffset);
}
