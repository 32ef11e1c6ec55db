package shop;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A cluster in a process of its own, which ends with this one at the latest. */
final class PocketMq implements AutoCloseable {
  private final Process process;
  private final JsonObject up;
  private final HttpClient http = HttpClient.newHttpClient();

  PocketMq() throws Exception {
    String program = System.getenv().getOrDefault("POCKETMQ", "pocketmq");
    process =
        new ProcessBuilder(
                List.of(
                    program, "up", "--memory", "--namesrv-port", "0", "--broker-port", "0",
                    "--grpc-port", "0", "--control", "0", "--output", "json", "--stop-with-stdin"))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    String line = lines.readLine();
    if (line == null) {
      throw new IllegalStateException(
          program + " did not start; exit code " + process.waitFor() + ", its reason is above");
    }
    up = JsonParser.parseString(line).getAsJsonObject();
  }

  String namesrv() {
    return up.get("namesrv").getAsString();
  }

  /** Where RocketMQ 5's SDK connects to. */
  String endpoints() {
    return up.get("grpc").getAsString();
  }

  /** Asks the control API; all that can be asked is at {@code /openapi.json}. */
  JsonObject ask(String method, String path, String body) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(up.get("control").getAsString() + path))
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body))
            .build();
    HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() >= 300) {
      throw new AssertionError(method + " " + path + ": " + answer.body());
    }
    return JsonParser.parseString(answer.body()).getAsJsonObject();
  }

  /** Two hours pass at once: {@code advance("hours", 2)}. */
  void advance(String unit, int count) throws Exception {
    ask("POST", "/clock/advance", "{\"" + unit + "\": " + count + "}");
  }

  /** What a topic holds, once it holds so many; nothing is consumed. */
  List<String> published(String topic, int count) throws Exception {
    return bodies("/topics/" + encoded(topic) + "/messages?waitFor=" + count);
  }

  /** What was given up for a group. */
  List<String> deadLetters(String group) throws Exception {
    return bodies("/groups/" + encoded(group) + "/dead-letters");
  }

  /** As at the start: for the next test. */
  void reset() throws Exception {
    ask("POST", "/reset", "");
  }

  private List<String> bodies(String path) throws Exception {
    JsonArray messages = ask("GET", path, "").getAsJsonArray("messages");
    List<String> found = new ArrayList<>();
    messages.forEach(one -> found.add(one.getAsJsonObject().get("body").getAsString()));
    return found;
  }

  private static String encoded(String name) {
    return URLEncoder.encode(name, StandardCharsets.UTF_8);
  }

  @Override
  public void close() throws Exception {
    process.destroy();
    process.waitFor();
  }
}
