package pocketmq.sdk5;

import com.google.gson.Gson;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.RecallReceipt;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Plays all scenarios and prints one JSON document. Arguments: endpoints, TLS, access key, secret. */
public final class Probe {
  private static final ClientServiceProvider SDK = ClientServiceProvider.loadService();
  private static final long PATIENCE_MS = 40_000;
  private final ClientConfiguration configuration;
  private final Map<String, Object> seen = new LinkedHashMap<>();
  // They are not closed: that would wait for the receives that are held, 20 seconds.
  private final List<PushConsumer> pushConsumers = new ArrayList<>();

  private Probe(String endpoints, boolean tls, String accessKey, String secretKey) {
    ClientConfigurationBuilder builder =
        ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(tls);
    if (!accessKey.isEmpty()) {
      builder.setCredentialProvider(new StaticSessionCredentialsProvider(accessKey, secretKey));
    }
    configuration = builder.build();
  }

  public static void main(String[] arguments) throws Exception {
    Probe probe = new Probe(arguments[0], arguments[1].equals("tls"),
        arguments.length > 2 ? arguments[2] : "", arguments.length > 3 ? arguments[3] : "");
    if (arguments[arguments.length - 1].equals("restart")) {
      probe.restart();
      System.out.println(new Gson().toJson(probe.seen));
      System.exit(0);
    }
    probe.simple();
    probe.filters();
    probe.batch();
    probe.remoting();
    probe.push();
    probe.order();
    probe.delay();
    probe.transactions();
    System.out.println(new Gson().toJson(probe.seen));
    System.exit(0);
  }

  private static String text(MessageView message) {
    ByteBuffer body = message.getBody();
    byte[] bytes = new byte[body.remaining()];
    body.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static MessageBuilder message(String topic, String body) {
    return SDK.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
  }

  private Producer producer(String... topics) throws Exception {
    return SDK.newProducerBuilder().setClientConfiguration(configuration).setTopics(topics).build();
  }

  private SimpleConsumer simpleConsumer(String group, String topic, FilterExpression filter)
      throws Exception {
    return SDK.newSimpleConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
        .setSubscriptionExpressions(Collections.singletonMap(topic, filter)).build();
  }

  private void simple() throws Exception {
    List<String> bodies = new ArrayList<>();
    try (Producer producer = producer("Normal");
        SimpleConsumer consumer = simpleConsumer("simple", "Normal",
            new FilterExpression("A", FilterExpressionType.TAG))) {
      producer.send(message("Normal", "first").setTag("A").setKeys("k1").addProperty("p", "v")
          .build());
      producer.send(message("Normal", "unwanted").setTag("B").build());
      producer.send(message("Normal", "x".repeat(4 * 1024 * 1024)).setTag("A").build());
      long end = System.currentTimeMillis() + PATIENCE_MS;
      while (bodies.size() < 2 && System.currentTimeMillis() < end) {
        for (MessageView view : consumer.receive(16, Duration.ofSeconds(30))) {
          String body = text(view);
          bodies.add(body.length() > 100 ? "long " + body.length() : body);
          if (body.equals("first")) {
            seen.put("properties", view.getProperties());
            seen.put("keys", view.getKeys());
            consumer.changeInvisibleDuration(view, Duration.ofSeconds(60));
          }
          consumer.ack(view);
        }
      }
    }
    Collections.sort(bodies);
    seen.put("simple", bodies);
  }

  /** Bodies of messages, long ones by their length, as they come. */
  private List<String> received(String group, String topic, FilterExpression filter, int count)
      throws Exception {
    List<String> bodies = new ArrayList<>();
    try (SimpleConsumer consumer = simpleConsumer(group, topic, filter)) {
      long end = System.currentTimeMillis() + PATIENCE_MS;
      while (bodies.size() < count && System.currentTimeMillis() < end) {
        for (MessageView view : consumer.receive(32, Duration.ofSeconds(30))) {
          String body = text(view);
          bodies.add(body.length() > 100 ? "long " + body.length() : body);
          consumer.ack(view);
        }
      }
    }
    return bodies;
  }

  private void filters() throws Exception {
    try (Producer producer = producer("Filtered")) {
      for (int a = 1; a <= 5; a++) {
        producer.send(message("Filtered", "a" + a).addProperty("a", "" + a).build());
      }
    }
    FilterExpression filter =
        new FilterExpression("a > 3 AND a IS NOT NULL", FilterExpressionType.SQL92);
    List<String> bodies = received("filtered", "Filtered", filter, 2);
    Collections.sort(bodies);
    seen.put("filtered", bodies);
  }

  private void batch() throws Exception {
    try (Producer producer = producer("Batch")) {
      for (int i = 0; i < 32; i++) {
        producer.send(message("Batch", "m" + i).build());
      }
    }
    seen.put("batch", received("batch", "Batch", FilterExpression.SUB_ALL, 1));
  }

  /** A client of remoting has sent the message, compressed. */
  private void remoting() throws Exception {
    seen.put("remoting", received("remoting", "Remoting", FilterExpression.SUB_ALL, 1));
  }

  private void push() throws Exception {
    ConcurrentLinkedQueue<String> got = new ConcurrentLinkedQueue<>();
    try (Producer producer = producer("Push")) {
      for (int i = 0; i < 5; i++) {
        producer.send(message("Push", "m" + i).build());
      }
    }
    pushConsumers.add(SDK.newPushConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup("push")
        .setSubscriptionExpressions(Collections.singletonMap("Push", FilterExpression.SUB_ALL))
        .setMessageListener(view -> {
          got.add(text(view) + "/" + view.getDeliveryAttempt());
          boolean fails = text(view).equals("m0") && view.getDeliveryAttempt() == 1
              || text(view).equals("m1");
          return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        }).build());
    await(got, 5 + 1 + 1);
    Thread.sleep(2000);
    List<String> sorted = new ArrayList<>(got);
    Collections.sort(sorted);
    seen.put("push", sorted);
  }

  private void order() throws Exception {
    ConcurrentLinkedQueue<String> got = new ConcurrentLinkedQueue<>();
    try (Producer producer = producer("Ordered")) {
      for (int i = 0; i < 6; i++) {
        producer.send(message("Ordered", "m" + i).setMessageGroup("g").build());
      }
    }
    pushConsumers.add(SDK.newPushConsumerBuilder().setClientConfiguration(configuration)
        .setConsumerGroup("ordered")
        .setSubscriptionExpressions(Collections.singletonMap("Ordered", FilterExpression.SUB_ALL))
        .setMessageListener(view -> {
          got.add(text(view));
          return ConsumeResult.SUCCESS;
        }).build());
    await(got, 6);
    seen.put("ordered", new ArrayList<>(got));
  }

  private void delay() throws Exception {
    List<String> bodies = new ArrayList<>();
    try (Producer producer = producer("Delayed");
        SimpleConsumer consumer =
            simpleConsumer("delayed", "Delayed", FilterExpression.SUB_ALL)) {
      long due = System.currentTimeMillis() + 3000;
      producer.send(message("Delayed", "later").setDeliveryTimestamp(due).build());
      SendReceipt recalled =
          producer.send(message("Delayed", "never").setDeliveryTimestamp(due).build());
      RecallReceipt receipt = producer.recallMessage("Delayed", recalled.getRecallHandle());
      seen.put("recalled",
          receipt.getMessageId().toString().equals(recalled.getMessageId().toString()));
      long end = System.currentTimeMillis() + PATIENCE_MS;
      while (bodies.isEmpty() && System.currentTimeMillis() < end) {
        for (MessageView view : consumer.receive(16, Duration.ofSeconds(30))) {
          bodies.add(text(view) + (System.currentTimeMillis() >= due ? "" : " early"));
          consumer.ack(view);
        }
      }
    }
    seen.put("delayed", bodies);
  }

  private void transactions() throws Exception {
    List<String> bodies = new ArrayList<>();
    try (Producer producer = SDK.newProducerBuilder().setClientConfiguration(configuration)
        .setTopics("Half").setTransactionChecker(view -> text(view).equals("orphan")
            ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK).build()) {
      for (String body : new String[] {"committed", "rolled back", "orphan"}) {
        Transaction transaction = producer.beginTransaction();
        producer.send(message("Half", body).build(), transaction);
        if (body.equals("committed")) {
          transaction.commit();
        } else if (body.equals("rolled back")) {
          transaction.rollback();
        }
      }
      bodies.addAll(received("half", "Half", FilterExpression.SUB_ALL, 2));
    }
    Collections.sort(bodies);
    seen.put("transactions", bodies);
  }

  /** Goes on by itself after its broker was gone; a line of standard input tells that it was. */
  private void restart() throws Exception {
    Set<String> bodies = new TreeSet<>();
    Producer producer = producer("Normal");
    producer.send(message("Normal", "before").build());
    SimpleConsumer consumer = simpleConsumer("restart", "Normal", FilterExpression.SUB_ALL);
    boolean isSent = false;
    long end = System.currentTimeMillis() + PATIENCE_MS;
    while (!bodies.contains("after") && System.currentTimeMillis() < end) {
      try {
        if (bodies.contains("before") && !isSent) {
          System.out.println("ready");
          System.in.read();
          producer.send(message("Normal", "after").build());
          isSent = true;
        }
        for (MessageView view : consumer.receive(16, Duration.ofSeconds(30))) {
          bodies.add(text(view));
          consumer.ack(view);
        }
      } catch (ClientException notBack) {
        System.err.println(notBack);
        Thread.sleep(100);
      }
    }
    seen.put("restart", bodies);
  }

  private static void await(ConcurrentLinkedQueue<String> got, int count) throws Exception {
    long end = System.currentTimeMillis() + PATIENCE_MS;
    while (got.size() < count && System.currentTimeMillis() < end) {
      Thread.sleep(50);
    }
  }
}
