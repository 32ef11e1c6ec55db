package pocketmq.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What only the 5.x client can do, called by name: one source compiles against 4.9.x too. */
final class Since5 {

  private Since5() {}

  static void setNamespaceV2(ClientConfig config, String namespace) throws Exception {
    call(config, "setNamespaceV2", String.class, namespace);
  }

  /** {@code setter}: setDelayTimeMs, setDelayTimeSec or setDeliverTimeMs. */
  static void setTimer(Message message, String setter, long value) throws Exception {
    call(message, setter, long.class, value);
  }

  static String recallHandle(SendResult result) throws Exception {
    return (String) result.getClass().getMethod("getRecallHandle").invoke(result);
  }

  /** Returns the id of the message that was recalled. */
  static String recall(DefaultMQProducer producer, String topic, String handle) throws Exception {
    Method recall = producer.getClass().getMethod("recallMessage", String.class, String.class);
    try {
      return (String) recall.invoke(producer, topic, handle);
    } catch (InvocationTargetException refused) {
      throw refused.getCause() instanceof Exception cause ? cause : refused;
    }
  }

  /** Brokers divide the queues then, or say that a group pops. */
  static void leaveRebalancingToBrokers(DefaultMQPushConsumer consumer) throws Exception {
    call(consumer, "setClientRebalance", boolean.class, false);
  }

  static void createGroup(DefaultMQAdminExt admin, String broker, String group) throws Exception {
    Method create = method(admin, "createAndUpdateSubscriptionGroupConfig");
    Object config = create.getParameterTypes()[1].getConstructor().newInstance();
    call(config, "setGroupName", String.class, group);
    create.invoke(admin, broker, config);
  }

  /** Has a group pop all queues of a topic. */
  static void setPopMode(
      DefaultMQAdminExt admin, String broker, String topic, String group, long timeoutMs)
      throws Exception {
    Method set = method(admin, "setMessageRequestMode");
    Object pop = set.getParameterTypes()[3].getField("POP").get(null);
    set.invoke(admin, broker, topic, group, pop, 0, timeoutMs);
  }

  /** A method whose parameters have types that clients of 4.9.x have elsewhere, or not at all. */
  private static Method method(Object target, String name) throws NoSuchMethodException {
    for (Method method : target.getClass().getMethods()) {
      if (method.getName().equals(name)) {
        return method;
      }
    }
    throw new NoSuchMethodException(name);
  }

  private static void call(Object target, String name, Class<?> type, Object value)
      throws Exception {
    target.getClass().getMethod(name, type).invoke(target, value);
  }
}
