package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.rocketmq.common.message.MessageExt;

/** What listeners were given, in the order in which they got it. */
final class Inbox {

  static final long TIMEOUT_MS = 60_000;

  /** {@code batch}: how many messages the listener got in the same call. */
  record Delivery(String member, int batch, long receivedAt, Views.Received message) {}

  private final List<Delivery> deliveries = new ArrayList<>();

  synchronized void add(String member, List<MessageExt> messages) {
    long now = System.currentTimeMillis();
    for (MessageExt message : messages) {
      deliveries.add(new Delivery(member, messages.size(), now, Views.received(message)));
    }
  }

  synchronized List<Delivery> all() {
    return List.copyOf(deliveries);
  }

  /** Waits until so many deliveries were made, whatever they hold; returns all there are then. */
  List<Delivery> await(String what, int count) throws Exception {
    return await(what, all -> all.size() >= count);
  }

  List<Delivery> await(String what, Predicate<List<Delivery>> condition) throws Exception {
    try {
      Await.until(what, TIMEOUT_MS, () -> condition.test(all()));
    } catch (AssertionError late) {
      throw new AssertionError(late.getMessage() + "; delivered: " + summary(), late);
    }
    return all();
  }

  private List<String> summary() {
    return all().stream()
        .map(one -> one.member() + " " + one.message().keys() + "#" + one.message().queueId())
        .toList();
  }
}
