package pocketmq.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends and consumes until it is told to stop, and writes down each send and each message.
 *
 * <p>Options: {@code --topic}, {@code --group}, {@code --journal} (the file), {@code --client} (a
 * name that starts all contents), {@code --senders} [2], {@code --poll-ms} [30000, Apache's default]
 * between polls of routes, {@code --pause-ms} [20] the longest pause of a sender, {@code --seed}.
 * It prints nothing; the line "stop" on standard input ends the sends, the end of input everything.
 *
 * <p>A line of the journal: S, client, content, times before and after in nanoseconds, attempts,
 * queue id, offset, status; or R, queue id, offset, content. Fields are separated by tabs.
 */
final class Load {

  private static final int SIZE_MAX = 20_000;

  private final Options options;
  private final PrintWriter journal;
  private final String topic;
  private volatile boolean isOver;

  private Load(Options options, Writer out) {
    this.options = options;
    this.journal = new PrintWriter(out);
    this.topic = options.topic();
  }

  static Object run(Options options) throws Exception {
    Path path = Path.of(options.text("journal"));
    try (Writer out = Files.newBufferedWriter(path, StandardCharsets.UTF_8)) {
      Load load = new Load(options, out);
      load.play();
      return path.toString();
    }
  }

  private void play() throws Exception {
    DefaultMQProducer producer = producer();
    DefaultMQPushConsumer consumer = consumer();
    List<Thread> senders = new ArrayList<>();
    for (int number = 0; number < options.number("senders", 2); number++) {
      String client = options.text("client") + "." + number;
      Random chance = new Random(options.number("seed", 0) + number);
      Thread sender = new Thread(() -> send(producer, client, chance), client);
      senders.add(sender);
      sender.start();
    }
    waitForLine();
    isOver = true;
    for (Thread sender : senders) {
      sender.join();
    }
    write("E");
    waitForLine();
    producer.shutdown();
    consumer.shutdown();
  }

  /** Line by line: everything that reads does so here, one after the other. */
  private final BufferedReader orders =
      new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  private void waitForLine() throws IOException {
    orders.readLine();
  }

  private synchronized void write(String... fields) {
    journal.println(String.join("\t", fields));
    journal.flush();
  }

  // -- sending ----------------------------------------------------------------------------------

  private DefaultMQProducer producer() throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("load-" + options.text("client"));
    producer.setNamesrvAddr(options.namesrv());
    producer.setPollNameServerInterval(options.number("poll-ms", 30_000));
    producer.getDefaultMQProducerImpl().registerSendMessageHook(new Attempts());
    producer.start();
    return producer;
  }

  private void send(DefaultMQProducer producer, String client, Random chance) {
    for (int number = 0; !isOver; number++) {
      String key = client + "/" + number;
      int size = chance.nextInt(20) == 0 ? SIZE_MAX : 40;
      byte[] body = (key + "|" + ".".repeat(chance.nextInt(size))).getBytes(StandardCharsets.UTF_8);
      Message message = new Message(topic, body);
      Attempts.COUNT.get()[0] = 0;
      long begun = System.nanoTime();
      SendResult result = null;
      String status;
      try {
        result = producer.send(message);
        status = result.getSendStatus().name();
      } catch (Exception failure) {
        status = failure.getClass().getSimpleName();
      }
      long ended = System.nanoTime();
      MessageQueue queue = result == null ? null : result.getMessageQueue();
      write(
          "S",
          client,
          content(body),
          Long.toString(begun),
          Long.toString(ended),
          Integer.toString(Attempts.COUNT.get()[0]),
          queue == null ? "-1" : Integer.toString(queue.getQueueId()),
          queue == null ? "-1" : Long.toString(result.getQueueOffset()),
          status);
      Await.sleep(1 + chance.nextInt(options.number("pause-ms", 20)));
    }
  }

  /** Counts how often the send that a thread is at is tried. */
  private static final class Attempts implements SendMessageHook {
    static final ThreadLocal<int[]> COUNT = ThreadLocal.withInitial(() -> new int[1]);

    @Override
    public String hookName() {
      return "attempts";
    }

    @Override
    public void sendMessageBefore(SendMessageContext context) {
      COUNT.get()[0]++;
    }

    @Override
    public void sendMessageAfter(SendMessageContext context) {
      // What became of it is told by the send.
    }
  }

  // -- consuming --------------------------------------------------------------------------------

  private DefaultMQPushConsumer consumer() throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.group());
    consumer.setNamesrvAddr(options.namesrv());
    consumer.setPollNameServerInterval(options.number("poll-ms", 30_000));
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              messages.forEach(this::read);
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    return consumer;
  }

  /** A message that comes again has a place in the topic of retries. */
  private void read(MessageExt message) {
    boolean isFirst = message.getReconsumeTimes() == 0;
    write(
        "R",
        isFirst ? Integer.toString(message.getQueueId()) : "-1",
        isFirst ? Long.toString(message.getQueueOffset()) : "-1",
        content(message.getBody()));
  }

  private static String content(byte[] body) {
    CRC32 crc = new CRC32();
    crc.update(body);
    String text = new String(body, StandardCharsets.UTF_8);
    return text.substring(0, text.indexOf('|')) + ":" + Long.toHexString(crc.getValue());
  }
}
