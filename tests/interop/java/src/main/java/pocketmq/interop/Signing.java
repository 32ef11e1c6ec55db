package pocketmq.interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** How the clients of the probe sign what they ask: with the credentials of a key file. */
final class Signing {

  private static final String KEY_FILE = "rocketmq.client.keyFile";

  private Signing() {}

  /** Apache's hook, or null if the system property that names the file is not set. */
  static RPCHook hook() {
    return System.getProperty(KEY_FILE) == null
        ? null
        : new AclClientRPCHook(new SessionCredentials());
  }
}
