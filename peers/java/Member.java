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
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
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
            subscribe(consumer, topic);
            while (true) {
                consumer.poll(Duration.ofMillis(100)).forEach(this::tell);
                for (String command = commands.poll(); command != null; command = commands.poll()) {
                    String[] words = command.split(" ");
                    switch (words[0]) {
                        case "commit" -> commit(consumer);
                        case "seek" -> {
                            var partition = new TopicPartition(topic, Integer.parseInt(words[1]));
                            consumer.seek(partition, Long.parseLong(words[2]));
                            answer(JSON.createObjectNode().put("done", command));
                        }
                        case "close" -> {
                            return;
                        }
                        default -> throw new IllegalArgumentException("there is no " + command);
                    }
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

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    private void subscribe(KafkaConsumer<?, ?> consumer, String topic) {
        if (!topic.startsWith("^")) {
            consumer.subscribe(List.of(topic), this);
        } else if (hasConsumerProtocol()) {
            consumer.subscribe(new SubscriptionPattern(topic), this);
        } else {
            consumer.subscribe(Pattern.compile(topic), this);
        }
    }

    private void commit(KafkaConsumer<?, ?> consumer) {
        long asked = System.nanoTime();
        ObjectNode answer = JSON.createObjectNode();
        try {
            consumer.commitSync();
            answer.put("done", "commit");
        } catch (KafkaException refused) {
            answer.put("failed", "commit").put("error", refused.toString());
        }
        answer(answer.put("asked_ns", asked));
    }

    private boolean hasConsumerProtocol() {
        return options.get("protocol").asText().equals("consumer");
    }

    private Map<String, Object> settings() {
        String assignor = options.get("assignor").asText();
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", options.get("bootstrap").asText(),
            "group.id", options.get("group").asText(),
            "auto.offset.reset", options.get("reset").asText(),
            "metadata.max.age.ms", 2_000,
            "enable.auto.commit", false));
        if (hasConsumerProtocol()) {
            settings.putAll(Map.of("group.protocol", "consumer", "group.remote.assignor", assignor));
        } else {
            settings.putAll(Map.of(
                "partition.assignment.strategy", List.of(ASSIGNORS.get(assignor)),
                "session.timeout.ms", options.get("session_ms").asInt(),
                "heartbeat.interval.ms", 500));
        }
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

    /** The time is CLOCK_MONOTONIC's: that is what nanoTime is on Linux. */
    private void answer(ObjectNode event) {
        answers.println(event.put("at_ns", System.nanoTime()));
        answers.flush();
    }
}
