package pocketmq.interop;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.reflect.TypeToken;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * Calls methods of Apache's clients that are named on its command line, one after the other, and
 * tells which there are. So one table covers every overload of every client version.
 *
 * <p>Option: {@code --calls}, a JSON list of objects with {@code target} (a name of {@link Cast}),
 * {@code call} (a signature of simple names, as in {@code maxOffset(MessageQueue)}) and {@code
 * arguments}, see {@link Arguments}. A call of what this version has not is left out.
 */
final class Calls {

  record Call(String target, String call, List<JsonElement> arguments) {}

  /** What a call came to: its result, or the exception with its response code, if it has one. */
  record Outcome(
      String target, String call, JsonElement result, String failure, Integer code, String words) {}

  /** {@code methods}: the signatures of each target's class. */
  record Seen(Map<String, List<String>> methods, List<Outcome> outcomes) {}

  private static final Type CALLS = new TypeToken<List<Call>>() {}.getType();

  private Calls() {}

  static Seen run(Options options) throws Exception {
    List<Call> calls = new Gson().fromJson(options.text("calls"), CALLS);
    try (Stage stage = new Stage(options, Cast.QUEUES)) {
      Cast cast = new Cast(stage);
      Arguments arguments = new Arguments(cast);
      Map<String, SortedMap<String, Method>> methods = new LinkedHashMap<>();
      cast.targets().forEach((name, one) -> methods.put(name, methods(one.getClass())));
      List<Outcome> outcomes = new ArrayList<>();
      for (Call call : calls) {
        Method method = methods.get(call.target()).get(call.call());
        if (method != null) {
          outcomes.add(outcome(call, method, cast.targets().get(call.target()), arguments));
        }
      }
      Map<String, List<String>> names = new LinkedHashMap<>();
      methods.forEach((target, those) -> names.put(target, List.copyOf(those.keySet())));
      return new Seen(names, outcomes);
    }
  }

  private static SortedMap<String, Method> methods(Class<?> type) {
    SortedMap<String, Method> found = new TreeMap<>();
    for (Method method : type.getDeclaredMethods()) {
      if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic()) {
        found.put(signature(method), method);
      }
    }
    return found;
  }

  private static String signature(Method method) {
    return Arrays.stream(method.getParameterTypes())
        .map(Class::getSimpleName)
        .collect(Collectors.joining(", ", method.getName() + "(", ")"));
  }

  private static Outcome outcome(Call call, Method method, Object target, Arguments arguments) {
    try {
      Object[] values = arguments.values(method, call.arguments());
      Object returned = method.invoke(target, values);
      JsonElement result = Arguments.GSON.toJsonTree(arguments.calledBack(values, returned));
      return new Outcome(call.target(), call.call(), result, null, null, null);
    } catch (InvocationTargetException | CalledBack.Failure failed) {
      return failure(call, failed.getCause());
    } catch (Exception failed) {
      return failure(call, failed);
    }
  }

  private static Outcome failure(Call call, Throwable failed) {
    Integer code = null;
    if (failed instanceof MQBrokerException refused) {
      code = refused.getResponseCode();
    } else if (failed instanceof MQClientException refused) {
      code = refused.getResponseCode();
    }
    String name = failed.getClass().getSimpleName();
    return new Outcome(call.target(), call.call(), null, name, code, failed.getMessage());
  }
}
