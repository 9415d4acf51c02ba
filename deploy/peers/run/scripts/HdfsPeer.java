import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * A real HDFS in one process: one NameNode, or two of which one is active, and one DataNode. HTTP on the first port tells whether it is
 * ready and does what a test asks for.
 */
public class HdfsPeer {
  private static MiniDFSCluster cluster;
  private static MiniDFSCluster.DataNodeProperties stopped;
  private static int[] ports;
  private static volatile boolean ready;

  public static void main(String[] args) throws Exception {
    String dir = args[0];
    int nameNodes = args.length - 2;
    ports = new int[nameNodes];
    HttpServer control = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[1])), 0);
    control.createContext("/", HdfsPeer::answer);
    control.start();

    Configuration conf = new Configuration();
    conf.setInt("dfs.namenode.fs-limits.min-block-size", 512);
    conf.setInt("dfs.namenode.safemode.extension", 0);
    conf.setInt("dfs.namenode.heartbeat.recheck-interval", 1000);
    conf.setInt("dfs.heartbeat.interval", 1);
    conf.setInt("dfs.replication", 1);
    conf.setInt("dfs.namenode.decommission.interval", 3);
    conf.setBoolean("dfs.permissions.enabled", true);
    if (System.getenv("KERBEROS") != null) {
      secure(new File(dir, "secure"), conf);
    }
    MiniDFSNNTopology topology = new MiniDFSNNTopology();
    MiniDFSNNTopology.NSConf names = new MiniDFSNNTopology.NSConf(nameNodes > 1 ? "peer" : null);
    for (int i = 0; i < nameNodes; i++) {
      ports[i] = Integer.parseInt(args[2 + i]);
      names.addNN(new MiniDFSNNTopology.NNConf(nameNodes > 1 ? "nn" + i : null).setIpcPort(ports[i]));
    }
    topology.addNameservice(names);
    File base = new File(dir, "dfs");
    boolean format = !base.exists();
    cluster = new MiniDFSCluster.Builder(conf, base).nnTopology(topology).numDataNodes(1).format(format).build();
    if (nameNodes > 1) {
      cluster.transitionToActive(0);
    }
    cluster.waitActive(0);
    try (FileSystem fs = cluster.getFileSystem(0)) {
      for (String open : new String[] {"/tmp", "/user"}) {
        fs.mkdirs(new Path(open));
        fs.setPermission(new Path(open), new FsPermission((short) 01777));
      }
    }
    ready = true;
    Thread.currentThread().join();
  }

  /** Starts a KDC and makes the cluster want its tickets. The folder has krb5.conf and alice.keytab. */
  private static void secure(File dir, Configuration conf) throws Exception {
    dir.mkdirs();
    Properties settings = MiniKdc.createConf();
    settings.setProperty(MiniKdc.ORG_NAME, "PEER");
    settings.setProperty(MiniKdc.ORG_DOMAIN, "TEST");
    MiniKdc kdc = new MiniKdc(settings, dir);
    kdc.start();
    Files.copy(kdc.getKrb5conf().toPath(), new File(dir, "krb5.conf").toPath(), StandardCopyOption.REPLACE_EXISTING);
    File keytab = new File(dir, "hdfs.keytab");
    kdc.createPrincipal(keytab, "hdfs/localhost", "HTTP/localhost");
    kdc.createPrincipal(new File(dir, "alice.keytab"), "alice");
    conf.set("hadoop.security.authentication", "kerberos");
    conf.setBoolean("hadoop.security.authorization", true);
    for (String who : new String[] {"namenode", "datanode"}) {
      conf.set("dfs." + who + ".kerberos.principal", "hdfs/localhost@PEER.TEST");
      conf.set("dfs." + who + ".keytab.file", keytab.getPath());
    }
    conf.set("dfs.web.authentication.kerberos.principal", "HTTP/localhost@PEER.TEST");
    conf.set("dfs.web.authentication.kerberos.keytab", keytab.getPath());
    conf.setBoolean("dfs.block.access.token.enable", true);
    conf.set("dfs.data.transfer.protection", System.getenv("KERBEROS"));
    conf.set("hadoop.rpc.protection", System.getenv("KERBEROS"));
    conf.set("dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding");
    conf.setBoolean("ignore.secure.ports.for.testing", true);
    UserGroupInformation.setConfiguration(conf);
    UserGroupInformation.loginUserFromKeytab("hdfs/localhost@PEER.TEST", keytab.getPath());
  }

  private static void answer(HttpExchange x) throws IOException {
    byte[] body;
    int status = 200;
    try {
      body = act(x.getRequestURI().getPath(), x.getRequestURI().getRawQuery()).getBytes(StandardCharsets.UTF_8);
    } catch (Throwable e) {
      body = e.toString().getBytes(StandardCharsets.UTF_8);
      status = 500;
    }
    x.sendResponseHeaders(status, body.length);
    x.getResponseBody().write(body);
    x.close();
  }

  private static synchronized String act(String what, String query) throws Exception {
    if (!ready) {
      throw new IllegalStateException("not ready");
    }
    String[] words = what.substring(1).split("/");
    switch (words[0]) {
      case "":
        return "ready";
      case "namenodes":
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < cluster.getNumNameNodes(); i++) {
          all.append("127.0.0.1:").append(ports[i]).append('\n');
        }
        return all.toString();
      case "webhdfs": // its address at a NameNode
        return cluster.getNameNode(Integer.parseInt(words[1])).getHttpAddress().toString().replaceAll("^.*/", "");
      case "datanode":
        if (words[1].equals("stop")) {
          stopped = cluster.stopDataNode(0);
        } else {
          cluster.restartDataNode(stopped, true);
          cluster.waitActive(active());
        }
        return "";
      case "namenode":
        int n = Integer.parseInt(words[1]);
        switch (words[2]) {
          case "stop":
            cluster.shutdownNameNode(n);
            break;
          case "start":
            cluster.restartNameNode(n, false);
            break;
          case "active":
            cluster.transitionToActive(n);
            cluster.waitActive(n);
            break;
          case "standby":
            cluster.transitionToStandby(n);
            break;
          default:
            throw new IllegalArgumentException(what);
        }
        return "";
      case "quota": // ?PATH: bytes, of all replicas
        String path = URLDecoder.decode(query, StandardCharsets.UTF_8);
        ((DistributedFileSystem) cluster.getFileSystem(active())).setQuota(new Path(path), HdfsConstants.QUOTA_DONT_SET, Long.parseLong(words[1]));
        return "";
      default:
        throw new IllegalArgumentException(what);
    }
  }

  private static int active() {
    for (int i = 0; i < cluster.getNumNameNodes(); i++) {
      if (cluster.getNameNode(i) != null && cluster.getNameNode(i).isActiveState()) {
        return i;
      }
    }
    throw new IllegalStateException("no NameNode is active");
  }
}
