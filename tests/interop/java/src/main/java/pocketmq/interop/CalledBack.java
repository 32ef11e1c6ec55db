package pocketmq.interop;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Callbacks of every kind that can be waited for. */
final class CalledBack {

  /** What the callback was told instead of a result. */
  static final class Failure extends Exception {
    private static final long serialVersionUID = 1L;

    Failure(Throwable cause) {
      super(cause);
    }
  }

  private final CompletableFuture<Object> told = new CompletableFuture<>();

  Object await() throws Exception {
    try {
      return told.get(Inbox.TIMEOUT_MS, TimeUnit.MILLISECONDS);
    } catch (ExecutionException failed) {
      throw new Failure(failed.getCause());
    }
  }

  SendCallback sent() {
    return new SendCallback() {
      @Override
      public void onSuccess(SendResult result) {
        told.complete(result);
      }

      @Override
      public void onException(Throwable failure) {
        told.completeExceptionally(failure);
      }
    };
  }

  PullCallback pulled() {
    return new PullCallback() {
      @Override
      public void onSuccess(PullResult result) {
        told.complete(result);
      }

      @Override
      public void onException(Throwable failure) {
        told.completeExceptionally(failure);
      }
    };
  }

  /** Java's client calls back without a message as soon as the request is sent. */
  RequestCallback answered() {
    return new RequestCallback() {
      @Override
      public void onSuccess(Message message) {
        if (message != null) {
          told.complete(message);
        }
      }

      @Override
      public void onException(Throwable failure) {
        told.completeExceptionally(failure);
      }
    };
  }
}
