import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorClient;

/** What MirrorMaker 2's client finds in a target: of one cluster upstream, and of one of its groups. */
public final class Remote {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration LIMIT = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        String upstream = arguments[1];
        Map<String, Object> settings = JSON.readValue(arguments[0], new TypeReference<Map<String, Object>>() {});
        try (MirrorClient target = new MirrorClient(settings)) {
            Map<String, Long> offsets = new TreeMap<>();
            target.remoteConsumerOffsets(arguments[2], upstream, LIMIT)
                    .forEach((partition, committed) -> offsets.put(partition.toString(), committed.offset()));
            System.out.println(JSON.writeValueAsString(Map.of(
                    "upstream", new TreeSet<>(target.upstreamClusters()),
                    "hops", target.replicationHops(upstream),
                    "topics", new TreeSet<>(target.remoteTopics()),
                    "heartbeats", new TreeSet<>(target.heartbeatTopics()),
                    "checkpoints", new TreeSet<>(target.checkpointTopics()),
                    "offsets", offsets)));
        }
    }
}
