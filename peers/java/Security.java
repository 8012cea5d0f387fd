import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** The security of all connections of this process: peers/security.py says where it is found. */
final class Security {
    private static final Map<String, String> SETTINGS = read();

    private Security() {}

    /** Returns the settings of a client together with its security. */
    static Map<String, Object> with(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(SETTINGS);
        all.putAll(settings);
        return all;
    }

    private static Map<String, String> read() {
        Map<String, String> settings = new HashMap<>();
        String folder = System.getenv("KAFKA_CLIENT_SECURITY");
        Path file = Path.of(folder == null ? "" : folder, "client.properties");
        if (folder != null && Files.exists(file)) {
            try (Reader lines = Files.newBufferedReader(file)) {
                var properties = new Properties();
                properties.load(lines);
                properties.stringPropertyNames().forEach(name -> settings.put(name, properties.getProperty(name)));
            } catch (IOException error) {
                throw new ExceptionInInitializerError(error);
            }
        }
        return settings;
    }
}
