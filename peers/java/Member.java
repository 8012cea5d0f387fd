import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group: `group` of peers/driver.py. */
final class Member implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Class<?>> ASSIGNORS =
        Map.of("range", RangeAssignor.class, "cooperative-sticky", CooperativeStickyAssignor.class);

    private final JsonNode options;
    private final PrintStream answers;
    private final BlockingQueue<String> commands = new LinkedBlockingQueue<>();

    Member(JsonNode options, PrintStream answers) {
        this.options = options;
        this.answers = answers;
    }

    /** Until it is told to close. */
    void run() {
        Thread reader = new Thread(this::takeCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        String topic = options.get("topic").asText();
        var bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Security.with(settings()), bytes, bytes)) {
            consumer.subscribe(List.of(topic), this);
            while (true) {
                consumer.poll(Duration.ofMillis(100)).forEach(this::tell);
                for (String command = commands.poll(); command != null; command = commands.poll()) {
                    String[] words = command.split(" ");
                    switch (words[0]) {
                        case "commit" -> consumer.commitSync();
                        case "seek" -> consumer.seek(
                            new TopicPartition(topic, Integer.parseInt(words[1])), Long.parseLong(words[2]));
                        case "close" -> {
                            return;
                        }
                        default -> throw new IllegalArgumentException("there is no " + command);
                    }
                    answer(JSON.createObjectNode().put("done", command));
                }
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    private Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", options.get("bootstrap").asText(),
            "group.id", options.get("group").asText(),
            "auto.offset.reset", options.get("reset").asText(),
            "enable.auto.commit", false,
            "partition.assignment.strategy", List.of(ASSIGNORS.get(options.get("assignor").asText())),
            "session.timeout.ms", 30_000,
            "heartbeat.interval.ms", 500));
        if (!options.get("instance").isNull()) {
            settings.put("group.instance.id", options.get("instance").asText());
        }
        return settings;
    }

    private void takeCommands() {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (IOException gone) {
            // As at its end.
        }
        commands.add("close");
    }

    private void tell(String what, Collection<TopicPartition> partitions) {
        ObjectNode event = JSON.createObjectNode();
        ArrayNode numbers = event.putArray(what);
        partitions.forEach(partition -> numbers.add(partition.partition()));
        answer(event);
    }

    private void tell(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode event = JSON.createObjectNode();
        event.putObject("record")
            .put("partition", record.partition())
            .put("offset", record.offset())
            .put("value", record.value());
        answer(event);
    }

    private void answer(ObjectNode event) {
        answers.println(event);
        answers.flush();
    }
}
