package pocketmq.interop;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the probe prints about messages, results and queues: flat records of plain values. */
final class Views {

  /** Longer bodies are told apart by size and digest alone, to keep the document readable. */
  private static final int BODY_HEX_MAX = 1024;

  private Views() {}

  record Body(int size, String sha256, String hex) {}

  /** A message as the sender made it. */
  record Outgoing(
      String topic,
      String tags,
      String keys,
      int flag,
      Map<String, String> properties,
      Body body) {}

  /** One attempt to send: {@code result} is null for a one-way send. */
  record Sent(String form, Outgoing message, Result result) {}

  record Result(
      String status,
      String msgId,
      String offsetMsgId,
      String brokerName,
      int queueId,
      long queueOffset,
      String transactionId,
      String regionId) {}

  /** A message as a consumer got it. */
  record Received(
      String topic,
      String brokerName,
      int queueId,
      long queueOffset,
      long commitLogOffset,
      String msgId,
      String offsetMsgId,
      String tags,
      String keys,
      int flag,
      int sysFlag,
      int reconsumeTimes,
      long bornTimestamp,
      long storeTimestamp,
      String bornHost,
      String storeHost,
      int storeSize,
      int bodyCrc,
      Map<String, String> properties,
      Body body) {}

  record Queue(String brokerName, int queueId) {}

  static Queue queue(MessageQueue queue) {
    return new Queue(queue.getBrokerName(), queue.getQueueId());
  }

  static Body body(byte[] bytes) {
    String hex = bytes.length <= BODY_HEX_MAX ? HexFormat.of().formatHex(bytes) : null;
    return new Body(bytes.length, sha256(bytes), hex);
  }

  /** Call it before sending: the client adds properties and may replace the body. */
  static Outgoing outgoing(Message message) {
    Map<String, String> properties =
        message.getProperties() == null ? Map.of() : message.getProperties();
    return new Outgoing(
        message.getTopic(),
        message.getTags(),
        message.getKeys(),
        message.getFlag(),
        new TreeMap<>(properties),
        body(message.getBody()));
  }

  static Result result(SendResult result) {
    return new Result(
        result.getSendStatus().name(),
        result.getMsgId(),
        result.getOffsetMsgId(),
        result.getMessageQueue().getBrokerName(),
        result.getMessageQueue().getQueueId(),
        result.getQueueOffset(),
        result.getTransactionId(),
        result.getRegionId());
  }

  static Received received(MessageExt message) {
    String offsetMsgId =
        message instanceof MessageClientExt client ? client.getOffsetMsgId() : message.getMsgId();
    return new Received(
        message.getTopic(),
        brokerName(message),
        message.getQueueId(),
        message.getQueueOffset(),
        message.getCommitLogOffset(),
        message.getMsgId(),
        offsetMsgId,
        message.getTags(),
        message.getKeys(),
        message.getFlag(),
        message.getSysFlag(),
        message.getReconsumeTimes(),
        message.getBornTimestamp(),
        message.getStoreTimestamp(),
        host(message.getBornHost()),
        host(message.getStoreHost()),
        message.getStoreSize(),
        message.getBodyCRC(),
        new TreeMap<>(message.getProperties()),
        body(message.getBody()));
  }

  /** Null with clients before 4.7, which do not say it. */
  private static String brokerName(MessageExt message) {
    try {
      return message.getBrokerName();
    } catch (NoSuchMethodError old) {
      return null;
    }
  }

  static String host(SocketAddress address) {
    InetSocketAddress inet = (InetSocketAddress) address;
    return inet.getAddress().getHostAddress() + ":" + inet.getPort();
  }

  private static String sha256(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
