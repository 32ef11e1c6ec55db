package pocketmq.interop;

import java.util.LinkedHashMap;
import java.util.Map;

/** The {@code --name value} pairs after the command. */
final class Options {

  /** The command line is wrong; the text says how. */
  static final class UsageException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UsageException(String text) {
      super(text);
    }
  }

  private final Map<String, String> values = new LinkedHashMap<>();

  private Options() {}

  static Options parse(String[] arguments) {
    Options options = new Options();
    for (int i = 1; i < arguments.length; i += 2) {
      if (!arguments[i].startsWith("--") || i + 1 == arguments.length) {
        throw new UsageException("expected --name value, got " + arguments[i]);
      }
      options.values.put(arguments[i].substring(2), arguments[i + 1]);
    }
    return options;
  }

  /** The same options with one of them set. */
  Options with(String name, String value) {
    Options changed = new Options();
    changed.values.putAll(values);
    changed.values.put(name, value);
    return changed;
  }

  String text(String name) {
    String value = values.get(name);
    if (value == null) {
      throw new UsageException("--" + name + " is required");
    }
    return value;
  }

  String text(String name, String otherwise) {
    return values.getOrDefault(name, otherwise);
  }

  int number(String name, int otherwise) {
    String value = values.get(name);
    try {
      return value == null ? otherwise : Integer.parseInt(value);
    } catch (NumberFormatException wrong) {
      throw new UsageException("--" + name + " must be a whole number, got " + value);
    }
  }

  String namesrv() {
    return text("namesrv");
  }

  String topic() {
    return text("topic");
  }

  String group() {
    return text("group");
  }
}
