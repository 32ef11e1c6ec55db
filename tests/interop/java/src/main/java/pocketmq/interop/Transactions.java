package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Transactions that commit, roll back, or do not know: then the broker asks, again while the answer
 * is still unknown. The key of a message says what becomes of it.
 */
final class Transactions {

  private static final List<String> KEYS =
      List.of("commit", "rollback", "check-commit", "check-rollback");
  private static final Set<String> UNKNOWN = Set.of("check-commit", "check-rollback");
  private static final int COMMITTED = 2;

  private Transactions() {}

  /**
   * {@code visible}: how many messages the topic held when each unknown one had been checked,
   * {@code stored}: how many it holds in the end.
   */
  record Seen(
      List<Views.Result> results,
      Map<String, String> states,
      Map<String, Integer> checks,
      long visible,
      long stored,
      List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      Inbox inbox = new Inbox();
      stage.member("consumer", inbox).start();
      DefaultMQPullConsumer reader = stage.pullConsumer(stage.group() + "-reader");
      Judge judge = new Judge();
      TransactionMQProducer producer = new TransactionMQProducer(stage.group(), Signing.hook());
      Clients.prepare(producer, options, "transactions");
      producer.setSendMsgTimeout(Clients.CALL_TIMEOUT_MS);
      producer.setTransactionListener(judge);
      producer.start();
      stage.closeLater(producer::shutdown);
      List<Views.Result> results = new ArrayList<>();
      Map<String, String> states = new TreeMap<>();
      for (String key : KEYS) {
        Message message = stage.message(key);
        // The broker asks for the first time after so many seconds, instead of 6.
        message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "1");
        var result = producer.sendMessageInTransaction(message, key);
        results.add(Views.result(result));
        states.put(key, result.getLocalTransactionState().name());
      }
      inbox.await("the message that is committed at once", 1);
      judge.awaitFirstChecks();
      MessageQueue queue = stage.queues().get(0);
      long visible = reader.maxOffset(queue);
      judge.awaitDecisions();
      List<Inbox.Delivery> deliveries = inbox.await("those committed by a check", COMMITTED);
      long stored = reader.maxOffset(queue);
      return new Seen(results, states, judge.counts(), visible, stored, deliveries);
    }
  }

  /**
   * Knows nothing of the transactions that are checked until it is told to decide; decides once.
   *
   * <p>Apache's broker asks for decided ones too until it has written the decision down, which may
   * take it 3 s, and commits one twice that is committed by two checks.
   */
  private static final class Judge implements TransactionListener {

    private final Map<String, Integer> checks = new ConcurrentHashMap<>();
    private final Set<String> decided = ConcurrentHashMap.newKeySet();
    private volatile boolean deciding;

    void awaitFirstChecks() throws Exception {
      Await.until(
          "a first check of each unknown transaction",
          Inbox.TIMEOUT_MS,
          () -> checks.keySet().containsAll(UNKNOWN));
    }

    void awaitDecisions() throws Exception {
      deciding = true;
      Await.until(
          "the check of each unknown transaction",
          Inbox.TIMEOUT_MS,
          () -> decided.containsAll(UNKNOWN));
    }

    Map<String, Integer> counts() {
      return new TreeMap<>(checks);
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object key) {
      return switch ((String) key) {
        case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
        case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
        default -> LocalTransactionState.UNKNOW;
      };
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
      checks.merge(message.getKeys(), 1, Integer::sum);
      boolean open = UNKNOWN.contains(message.getKeys());
      if (!deciding || !open || !decided.add(message.getKeys())) {
        return LocalTransactionState.UNKNOW;
      }
      return message.getKeys().equals("check-commit")
          ? LocalTransactionState.COMMIT_MESSAGE
          : LocalTransactionState.ROLLBACK_MESSAGE;
    }
  }
}
