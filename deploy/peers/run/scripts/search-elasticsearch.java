import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;

/**
 * Runs one node whose home is the first argument, until it is told to end. The second one is its version: what 7 has otherwise than 8 and 9 is
 * called by reflection.
 */
public class Server {
  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    boolean seven = args[1].startsWith("7.");
    if (!seven) {
      LogConfigurator.class.getMethod("configureESLogging").invoke(null);
    }
    Settings settings = Settings.builder().put("path.home", home.toString()).build();
    Environment env = InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "peer");
    LogConfigurator.registerErrorListener();
    Node node = seven ? seven(env) : newer(env, home.resolve("modules"));
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

  private static Node seven(Environment env) throws Exception {
    LogConfigurator.class.getMethod("configure", Environment.class).invoke(null, env);
    return Node.class.getConstructor(Environment.class).newInstance(env);
  }

  private static Node newer(Environment env, Path modules) throws Exception {
    LogConfigurator.class.getMethod("configure", Environment.class, boolean.class).invoke(null, env, true);
    Class<?> loader = Class.forName("org.elasticsearch.plugins.PluginsLoader");
    Object found = loader.getMethod("loadModulesBundles", Path.class).invoke(null, modules);
    Method make = loader.getMethod("createPluginsLoader", Set.class, Set.class, Map.class, boolean.class);
    return Node.class.getConstructor(Environment.class, loader).newInstance(env, make.invoke(null, found, Set.of(), Map.of(), false));
  }
}
