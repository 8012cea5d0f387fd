import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** What MirrorMaker 2's client finds in a target: of one cluster upstream, and of one of its groups. */
public final class Remote {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> target = Map.of("bootstrap.servers", arguments[0]);
        String upstream = arguments[1];
        Map<String, Long> offsets = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(target, upstream, arguments[2], LIMIT)
                .forEach((partition, committed) -> offsets.put(partition.toString(), committed.offset()));
        System.out.println(new ObjectMapper().writeValueAsString(Map.of(
                "upstream", new TreeSet<>(RemoteClusterUtils.upstreamClusters(target)),
                "hops", RemoteClusterUtils.replicationHops(target, upstream),
                "heartbeats", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(target)),
                "checkpoints", new TreeSet<>(RemoteClusterUtils.checkpointTopics(target)),
                "offsets", offsets)));
    }
}
