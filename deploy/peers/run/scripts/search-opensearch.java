import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;

/** Runs one node whose home is the first argument, until it is told to end. */
public class Server {
  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Settings settings = Settings.builder().put("path.home", home.toString()).build();
    Environment env = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "peer");
    LogConfigurator.registerErrorListener();
    LogConfigurator.configure(env);
    Node node = new Node(env);
    CountDownLatch stopped = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        node.close();
      } catch (Exception e) {
        e.printStackTrace();
      }
      stopped.countDown();
    }));
    node.start();
    stopped.await();
  }
}
