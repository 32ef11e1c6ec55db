package pocketmq.interop;

import com.google.gson.ExclusionStrategy;
import com.google.gson.FieldAttributes;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.google.gson.JsonSerializer;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.client.consumer.MessageQueueListener;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.TopicMessageQueueChangeListener;
import org.apache.rocketmq.client.hook.ConsumeMessageContext;
import org.apache.rocketmq.client.hook.ConsumeMessageHook;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Arguments of {@link Calls} as Java wants them, by the type of the parameter.
 *
 * <p>In texts {@code {topic}} and the other names of {@link Cast#names} are filled in. A message is
 * given by its key, a message that was stored by its place among those of the cast, a queue by its
 * place among the topic's, a selector by its SQL; of callbacks and listeners only null counts.
 */
final class Arguments {

  static final Gson GSON =
      new GsonBuilder()
          .registerTypeHierarchyAdapter(Message.class, (JsonSerializer<Message>) Arguments::written)
          .registerTypeHierarchyAdapter(
              SocketAddress.class,
              (JsonSerializer<SocketAddress>) (one, type, to) -> new JsonPrimitive(one.toString()))
          .registerTypeHierarchyAdapter(
              byte[].class,
              (JsonSerializer<byte[]>) (one, type, to) -> new JsonPrimitive(text(one)))
          .setExclusionStrategies(new WithoutRandom())
          .create();

  private final Cast cast;
  private final Map<Object, CalledBack> awaited = new HashMap<>();

  Arguments(Cast cast) {
    this.cast = cast;
  }

  Object[] values(Method method, List<JsonElement> given) {
    Type[] types = method.getGenericParameterTypes();
    if (types.length != given.size()) {
      throw new Options.UsageException(method + " takes other arguments than " + given);
    }
    Object[] values = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      values[i] = value(types[i], method.getParameterTypes()[i], given.get(i));
    }
    return values;
  }

  /** What a callback among the arguments is told, or what was returned if there is none. */
  Object calledBack(Object[] values, Object returned) throws Exception {
    for (Object value : values) {
      CalledBack callback = value == null ? null : awaited.get(value);
      if (callback != null) {
        return callback.await();
      }
    }
    return returned;
  }

  private Object value(Type type, Class<?> raw, JsonElement given) {
    if (given == null || given.isJsonNull()) {
      return null;
    }
    if (raw == Message.class) {
      return cast.message(filled(given).getAsString());
    }
    if (raw == MessageExt.class) {
      return cast.stored().get(given.getAsInt());
    }
    if (raw == MessageQueue.class) {
      return cast.queue(given.getAsInt());
    }
    if (raw == MessageSelector.class) {
      return MessageSelector.bySql(given.getAsString());
    }
    if (raw.isInterface() && raw.getPackageName().startsWith("org.apache.rocketmq")) {
      return listener(raw);
    }
    if (Collection.class.isAssignableFrom(raw) && element(type) instanceof Class<?> one) {
      Collection<Object> all = Set.class == raw ? new LinkedHashSet<>() : new ArrayList<>();
      given.getAsJsonArray().forEach(each -> all.add(value(one, one, each)));
      return all;
    }
    if (Map.class.isAssignableFrom(raw) && element(type) == MessageQueue.class) {
      Map<MessageQueue, Long> offsets = new HashMap<>();
      given
          .getAsJsonObject()
          .entrySet()
          .forEach(
              one ->
                  offsets.put(
                      cast.queue(Integer.parseInt(one.getKey())), one.getValue().getAsLong()));
      return offsets;
    }
    return new Gson().fromJson(filled(given), raw == Object.class ? Integer.class : type);
  }

  private static Type element(Type type) {
    return type instanceof ParameterizedType one ? one.getActualTypeArguments()[0] : null;
  }

  private Object listener(Class<?> raw) {
    CalledBack callback = new CalledBack();
    Object made;
    if (raw == SendCallback.class) {
      made = callback.sent();
    } else if (raw == PullCallback.class) {
      made = callback.pulled();
    } else if (raw == RequestCallback.class) {
      made = callback.answered();
    } else {
      return ignoring(raw);
    }
    awaited.put(made, callback);
    return made;
  }

  private static Object ignoring(Class<?> raw) {
    if (raw == MessageQueueSelector.class) {
      return (MessageQueueSelector)
          (queues, message, place) ->
              queues.stream().sorted().toList().get((Integer) place % queues.size());
    }
    if (raw == MessageQueueListener.class) {
      return (MessageQueueListener) (topic, all, mine) -> {};
    }
    if (raw == TopicMessageQueueChangeListener.class) {
      return (TopicMessageQueueChangeListener) (topic, queues) -> {};
    }
    if (raw == ConsumeMessageHook.class) {
      return new Hook();
    }
    throw new Options.UsageException("there is nothing to give for a " + raw);
  }

  private JsonElement filled(JsonElement given) {
    String json = given.toString();
    for (var name : cast.names().entrySet()) {
      json = json.replace("{" + name.getKey() + "}", name.getValue());
    }
    return new Gson().fromJson(json, JsonElement.class);
  }

  private static JsonElement written(Message message, Type type, Object to) {
    JsonObject seen = new JsonObject();
    seen.addProperty("topic", message.getTopic());
    seen.addProperty("keys", message.getKeys());
    seen.addProperty("body", text(message.getBody()));
    if (message instanceof MessageExt stored) {
      seen.addProperty("queueId", stored.getQueueId());
      seen.addProperty("queueOffset", stored.getQueueOffset());
      seen.addProperty("reconsumeTimes", stored.getReconsumeTimes());
    }
    return seen;
  }

  private static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  /** Routes hold one to choose a broker with, which Gson may not look into. */
  private static final class WithoutRandom implements ExclusionStrategy {
    @Override
    public boolean shouldSkipField(FieldAttributes field) {
      return false;
    }

    @Override
    public boolean shouldSkipClass(Class<?> type) {
      return Random.class.isAssignableFrom(type);
    }
  }

  private static final class Hook implements ConsumeMessageHook {
    @Override
    public String hookName() {
      return "interop";
    }

    @Override
    public void consumeMessageBefore(ConsumeMessageContext context) {}

    @Override
    public void consumeMessageAfter(ConsumeMessageContext context) {}
  }
}
