import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints each of Kafka's configs that is no internal one: what it belongs to, its name, type, default, and
 * where it may be changed. Tabs separate them.
 */
public final class Configs {
    public static void main(String[] arguments) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF);
        print("topic", LogConfig.configDefCopy());
        print("group", GroupConfig.CONFIG_DEF);
        print("client-metrics", ClientMetricsConfigs.configDef());
    }

    private static void print(String kind, ConfigDef definition) {
        Map<String, ConfigKey> keys = new TreeMap<>(definition.configKeys());
        for (ConfigKey key : keys.values()) {
            if (!key.internalConfig) {
                Object standard = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE
                    ? null : ConfigDef.convertToString(key.defaultValue, key.type);
                System.out.println(String.join("\t", kind, key.name, key.type.name(), String.valueOf(standard),
                    kind.equals("broker") ? changed(key.name) : kind));
            }
        }
    }

    private static String changed(String name) {
        Properties alone = new Properties();
        alone.put(name, "");
        if (DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS.contains(name)) {
            return "listener";
        }
        if (!DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS.contains(name)) {
            return "static";
        }
        return DynamicBrokerConfig.perBrokerConfigs(alone).isEmpty() ? "cluster" : "broker";
    }
}
