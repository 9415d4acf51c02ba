import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** Runs one node whose home is the first argument, until it is told to end. */
public class Server {
  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    LogConfigurator.configureESLogging();
    Settings settings = Settings.builder().put("path.home", home.toString()).build();
    Environment env = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "peer");
    LogConfigurator.registerErrorListener();
    LogConfigurator.configure(env, true);
    var modules = PluginsLoader.loadModulesBundles(home.resolve("modules"));
    Node node = new Node(env, PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of(), false));
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
