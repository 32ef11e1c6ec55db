package pocketmq.interop;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.Message;

/** Messages with a delay level. The key of each is its level. */
final class Delays {

  private static final int LEVELS = 4;

  private Delays() {}

  record Seen(List<Views.Result> results, List<Inbox.Delivery> deliveries) {}

  static Seen run(Options options) throws Exception {
    try (Stage stage = new Stage(options, 1)) {
      Inbox inbox = new Inbox();
      stage.member("consumer", inbox).start();
      List<Views.Result> results = new ArrayList<>();
      for (int level = LEVELS; level >= 0; level--) {
        Message message = stage.message(Integer.toString(level));
        message.setDelayTimeLevel(level);
        results.add(Views.result(stage.producer().send(message)));
      }
      return new Seen(results, inbox.await("all levels", LEVELS + 1));
    }
  }
}
