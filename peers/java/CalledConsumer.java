import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One consumer of one topic: what peers/java/consumers.py has methods for. */
final class CalledConsumer implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<Map<String, Object>> SETTINGS = new TypeReference<>() {};
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final Duration SOON = Duration.ofMillis(100);

    private final String topic;
    private final Duration limit;
    private final boolean commitsWhenRevoked;
    private final KafkaConsumer<String, String> consumer;
    private ArrayNode events = NODES.arrayNode();

    CalledConsumer(JsonNode options) {
        topic = options.get("topic").asText();
        limit = Duration.ofMillis(options.get("limit_ms").asLong());
        commitsWhenRevoked = options.get("commits_when_revoked").asBoolean();
        Map<String, Object> settings = new HashMap<>(JSON.convertValue(options.get("settings"), SETTINGS));
        consumer = new KafkaConsumer<>(Security.with(settings), new StringDeserializer(), new StringDeserializer());
        if (options.get("partitions").isNull()) {
            consumer.subscribe(List.of(topic), this);
        } else {
            consumer.assign(StreamSupport.stream(options.get("partitions").spliterator(), false)
                .map(number -> partition(number.asInt())).toList());
        }
    }

    JsonNode call(String what, JsonNode with) {
        return switch (what) {
            case "poll" -> poll();
            case "read" -> read(with.get("count").asInt());
            case "reach" -> reach(partition(with), with.get("offset").asLong());
            case "position" -> NODES.numberNode(consumer.position(partition(with)));
            case "assignment" -> numbers(consumer.assignment());
            case "events" -> events();
            case "ends" -> NODES.numberNode(consumer.endOffsets(Set.of(partition(with))).get(partition(with)));
            case "begins" -> NODES.numberNode(consumer.beginningOffsets(Set.of(partition(with))).get(partition(with)));
            case "committed" -> committed(partition(with));
            default -> {
                act(what, with);
                yield NODES.nullNode();
            }
        };
    }

    private void act(String what, JsonNode with) {
        switch (what) {
            case "seek" -> consumer.seek(partition(with), with.get("offset").asLong());
            case "seek_to_beginning" -> consumer.seekToBeginning(Set.of(partition(with)));
            case "seek_to_end" -> consumer.seekToEnd(Set.of(partition(with)));
            case "seek_to_time" -> seekToTime(partition(with), with.get("timestamp_ms").asLong());
            case "pause" -> consumer.pause(Set.of(partition(with)));
            case "resume" -> consumer.resume(Set.of(partition(with)));
            case "commit" -> commit(with.get("offsets"));
            default -> throw new IllegalArgumentException("there is no " + what);
        }
    }

    void close() {
        consumer.close();
    }

    /** What the listener was called with since the last call. */
    ArrayNode events() {
        ArrayNode since = events;
        events = NODES.arrayNode();
        return since;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        note("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        note("revoked", partitions);
        if (commitsWhenRevoked) {
            consumer.commitSync();
        }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        note("lost", partitions);
    }

    private void note(String what, Collection<TopicPartition> partitions) {
        events.addArray().add(what).add(numbers(partitions));
    }

    private ArrayNode poll() {
        return rows(consumer.poll(SOON));
    }

    private ArrayNode read(int count) {
        ArrayNode rows = NODES.arrayNode();
        pollUntil(() -> rows.size() >= count, rows);
        return rows;
    }

    private ArrayNode reach(TopicPartition partition, long offset) {
        ArrayNode rows = NODES.arrayNode();
        pollUntil(() -> consumer.position(partition) == offset, rows);
        return rows;
    }

    private void pollUntil(BooleanSupplier done, ArrayNode rows) {
        Instant end = Instant.now().plus(limit);
        while (!done.getAsBoolean() && Instant.now().isBefore(end)) {
            rows.addAll(poll());
        }
    }

    private static ArrayNode rows(Iterable<ConsumerRecord<String, String>> records) {
        ArrayNode rows = NODES.arrayNode();
        for (ConsumerRecord<String, String> record : records) {
            rows.addArray().add(record.partition()).add(record.offset()).add(record.value());
        }
        return rows;
    }

    private void seekToTime(TopicPartition partition, long time) {
        OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
        if (found == null) {
            consumer.seekToEnd(Set.of(partition));
        } else {
            consumer.seek(partition, found.offset());
        }
    }

    private void commit(JsonNode offsets) {
        if (offsets.isNull()) {
            consumer.commitSync();
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> given = new HashMap<>();
        for (JsonNode each : offsets) {
            Optional<Integer> epoch = each.get(2).isNull() ? Optional.empty() : Optional.of(each.get(2).asInt());
            given.put(partition(each.get(0).asInt()),
                new OffsetAndMetadata(each.get(1).asLong(), epoch, each.get(3).asText()));
        }
        consumer.commitSync(given);
    }

    private JsonNode committed(TopicPartition partition) {
        OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
        if (found == null) {
            return NODES.nullNode();
        }
        ArrayNode committed = NODES.arrayNode().add(found.offset());
        found.leaderEpoch().ifPresentOrElse(committed::add, committed::addNull);
        return committed.add(found.metadata());
    }

    private ArrayNode numbers(Collection<TopicPartition> partitions) {
        ArrayNode numbers = NODES.arrayNode();
        partitions.stream().mapToInt(TopicPartition::partition).sorted().forEach(numbers::add);
        return numbers;
    }

    private TopicPartition partition(JsonNode with) {
        return partition(with.get("partition").asInt());
    }

    private TopicPartition partition(int number) {
        return new TopicPartition(topic, number);
    }
}
