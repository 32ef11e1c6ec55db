package shop;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Ships parcels an hour after they were packed, with RocketMQ 5's SDK. */
public final class Shipping implements AutoCloseable {
  static final String PARCELS = "Parcels";
  static final String GROUP = "shipping";

  private static final Duration INVISIBLE = Duration.ofSeconds(10);
  private static final Duration AWAIT = Duration.ofSeconds(6);

  private final ClientServiceProvider provider = ClientServiceProvider.loadService();
  private final Producer producer;
  private final SimpleConsumer consumer;

  public Shipping(String endpoints) throws Exception {
    ClientConfiguration configuration =
        ClientConfiguration.newBuilder().setEndpoints(endpoints).build();
    producer =
        provider
            .newProducerBuilder()
            .setClientConfiguration(configuration)
            .setTopics(PARCELS)
            .build();
    consumer =
        provider
            .newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(GROUP)
            .setAwaitDuration(AWAIT)
            .setSubscriptionExpressions(Map.of(PARCELS, FilterExpression.SUB_ALL))
            .build();
  }

  /** The parcel comes to `ship` when it is packed long enough. */
  public void packed(String parcel, long packedAtMs) throws Exception {
    producer.send(
        provider
            .newMessageBuilder()
            .setTopic(PARCELS)
            .setDeliveryTimestamp(packedAtMs + Duration.ofHours(1).toMillis())
            .setBody(parcel.getBytes(StandardCharsets.UTF_8))
            .build());
  }

  /** Gives parcels to a carrier; those that it does not take come again after ten seconds. */
  public List<String> ship(Predicate<String> carrier) throws Exception {
    List<String> seen = new ArrayList<>();
    for (MessageView message : consumer.receive(16, INVISIBLE)) {
      ByteBuffer body = message.getBody();
      String parcel = StandardCharsets.UTF_8.decode(body).toString();
      seen.add(parcel + " attempt " + message.getDeliveryAttempt());
      if (carrier.test(parcel)) {
        consumer.ack(message);
      }
    }
    return seen;
  }

  @Override
  public void close() throws Exception {
    producer.close();
    consumer.close();
  }
}
