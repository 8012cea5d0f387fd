import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the Java client does in transactions. */
final class Transactions {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode options;

    Transactions(JsonNode options) {
        this.options = options;
    }

    void transact() throws Exception {
        var steps = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (String line = steps.readLine(); line != null; line = steps.readLine()) {
                JsonNode step = JSON.readTree(line);
                if (step.has("do")) {
                    take(step.get("do").asText(), producer);
                } else {
                    send(producer, Driver.bytes(step.get("key")), Driver.bytes(step.get("value")));
                }
            }
        }
    }

    void transform() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(); KafkaProducer<byte[], byte[]> producer = producer()) {
            List<ConsumerRecord<byte[], byte[]>> got = read(consumer, options.get("count").asInt());
            producer.beginTransaction();
            got.forEach(record -> send(producer, record.key(), record.value()));
            var next = new OffsetAndMetadata(got.get(got.size() - 1).offset() + 1);
            var source = new TopicPartition(text("source"), 0);
            producer.sendOffsetsToTransaction(Map.of(source, next), consumer.groupMetadata());
            take(text("end"), producer);
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        consumer.subscribe(List.of(text("source")));
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        Instant end = Instant.now().plusMillis(Driver.LIMIT_MS);
        while (got.size() < count) {
            if (Instant.now().isAfter(end)) {
                throw new IllegalStateException("got " + got.size() + " of " + count + " records");
            }
            consumer.poll(Duration.ofMillis(500)).forEach(got::add);
        }
        return got.subList(0, count);
    }

    private static void take(String step, KafkaProducer<byte[], byte[]> producer) {
        switch (step) {
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException("there is no " + step);
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, byte[] key, byte[] value) {
        producer.send(new ProducerRecord<>(text("topic"), 0, key, value));
    }

    /** It has taken over the id. */
    private KafkaProducer<byte[], byte[]> producer() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", text("bootstrap"),
            "transactional.id", text("transactional_id"),
            "linger.ms", 5,
            "max.block.ms", Driver.LIMIT_MS);
        var producer = new KafkaProducer<>(Security.with(settings), new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", text("bootstrap"),
            "group.id", text("group"),
            "enable.auto.commit", false,
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest");
        return new KafkaConsumer<>(Security.with(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private String text(String name) {
        return options.get(name).asText();
    }
}
