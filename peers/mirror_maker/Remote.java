import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorClient;

/** What MirrorMaker 2's client finds in a target: of one cluster upstream, and of one of its groups. */
public final class Remote {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        String upstream = arguments[1];
        try (MirrorClient target = new MirrorClient(Map.of("bootstrap.servers", arguments[0]))) {
            Map<String, Long> offsets = new TreeMap<>();
            target.remoteConsumerOffsets(arguments[2], upstream, LIMIT)
                    .forEach((partition, committed) -> offsets.put(partition.toString(), committed.offset()));
            System.out.println(new ObjectMapper().writeValueAsString(Map.of(
                    "upstream", new TreeSet<>(target.upstreamClusters()),
                    "hops", target.replicationHops(upstream),
                    "topics", new TreeSet<>(target.remoteTopics()),
                    "heartbeats", new TreeSet<>(target.heartbeatTopics()),
                    "checkpoints", new TreeSet<>(target.checkpointTopics()),
                    "offsets", offsets)));
        }
    }
}
