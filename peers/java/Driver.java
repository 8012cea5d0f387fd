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
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** The Java client, driven from outside: peers/driver.py says with which arguments, and what it prints. */
public final class Driver {
    static final int LIMIT_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode options;
    private final PrintStream answers;

    private Driver(JsonNode options, PrintStream answers) {
        this.options = options;
        this.answers = answers;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what libraries log is no answer
        Driver driver = new Driver(JSON.readTree(arguments.length > 1 ? arguments[1] : "{}"), answers);
        switch (arguments[0]) {
            case "version" -> driver.version();
            case "produce" -> driver.produce();
            case "consume" -> driver.consume();
            case "transact" -> new Transactions(driver.options).transact();
            case "transform" -> new Transactions(driver.options).transform();
            case "offset-for-time" -> driver.offsetForTime();
            case "admin" -> driver.admin();
            case "consumers" -> new Consumers(answers).run();
            case "group" -> new Member(driver.options, answers).run();
            case "experience" -> new Experience(driver.options, answers).run();
            default -> throw new IllegalArgumentException("there is no " + arguments[0]);
        }
        answers.flush();
        if (answers.checkError()) {
            throw new IOException("nobody reads the answers");
        }
    }

    private void version() {
        answer(JSON.createObjectNode().put("name", "java").put("version", AppInfoParser.getVersion()));
    }

    private void produce() throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", text("bootstrap"),
            "acks", options.get("acks").asText(),
            "compression.type", text("codec"),
            "enable.idempotence", options.get("idempotent").asBoolean(),
            "linger.ms", 5,
            "max.request.size", 10_000_000,
            "max.block.ms", LIMIT_MS,
            "request.timeout.ms", 10_000,
            "delivery.timeout.ms", LIMIT_MS);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var records = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(Security.with(settings), bytes, bytes)) {
            for (String line = records.readLine(); line != null; line = records.readLine()) {
                sent.add(producer.send(fromLine(JSON.readTree(line))));
            }
            producer.flush();
            for (Future<RecordMetadata> delivery : sent) {
                answer(JSON.createObjectNode().put("offset", delivery.get().offset()));
            }
        }
    }

    private void consume() {
        int wanted = number("count");
        int got = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> assigned = IntStream.range(0, number("partitions")).mapToObj(this::partition).toList();
            consumer.assign(assigned);
            assigned.forEach(partition -> consumer.seek(partition, options.get("offset").asLong()));
            Instant end = Instant.now().plusMillis(LIMIT_MS);
            while (got < wanted) {
                if (Instant.now().isAfter(end)) {
                    throw new IllegalStateException("got " + got + " of " + wanted + " records in " + LIMIT_MS + " ms");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (got < wanted) {
                        answer(toLine(record));
                        got++;
                    }
                }
            }
        }
    }

    private void offsetForTime() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            long time = options.get("timestamp_ms").asLong();
            var found = consumer.offsetsForTimes(Map.of(partition(0), time)).get(partition(0));
            answer(JSON.createObjectNode().put("offset", found == null ? null : (Long) found.offset()));
        }
    }

    private void admin() throws Exception {
        String topic = text("topic");
        var config = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Collection<AlterConfigOp> change =
            List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "60000"), AlterConfigOp.OpType.SET));
        try (Admin admin = Admin.create(Security.with(Map.of("bootstrap.servers", text("bootstrap"))))) {
            done(admin.createTopics(List.of(new NewTopic(topic, Optional.of(3), Optional.empty()))).all());
            check(partitions(admin) == 3, "created with 3 partitions");
            done(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all());
            check(partitions(admin) == 5, "5 partitions now");
            done(admin.incrementalAlterConfigs(Map.of(config, change)).all());
            String told = done(admin.describeConfigs(List.of(config)).all()).get(config).get("retention.ms").value();
            check(told.equals("60000"), "retention.ms is " + told);
            check(done(admin.listTopics().names()).contains(topic), "listed");
            writeThree();
            var deleted = admin.deleteRecords(Map.of(partition(0), RecordsToDelete.beforeOffset(2)));
            check(done(deleted.lowWatermarks().get(partition(0))).lowWatermark() == 2, "begins at offset 2 now");
            done(admin.deleteTopics(List.of(topic)).all());
            check(!done(admin.listTopics().names()).contains(topic), "deleted");
        }
        ArrayNode did = JSON.createArrayNode();
        List.of("create", "describe", "partitions", "config", "list", "delete records", "delete").forEach(did::add);
        ObjectNode answer = JSON.createObjectNode().put("ok", true);
        answer.set("did", did);
        answer(answer);
    }

    private int partitions(Admin admin) throws Exception {
        String topic = text("topic");
        return done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
    }

    private void writeThree() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", text("bootstrap"), "max.block.ms", LIMIT_MS);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(Security.with(settings), bytes, bytes)) {
            for (byte n = 0; n < 3; n++) {
                producer.send(new ProducerRecord<>(text("topic"), 0, null, new byte[] {n})).get();
            }
        }
    }

    private static <T> T done(KafkaFuture<T> future) throws Exception {
        return future.get(LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("should be so: " + what);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", text("bootstrap"),
            "default.api.timeout.ms", LIMIT_MS,
            "max.partition.fetch.bytes", 8_000_000,
            "isolation.level", options.path("isolation").asText("read_uncommitted"),
            "auto.offset.reset", "none");
        return new KafkaConsumer<>(Security.with(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private ProducerRecord<byte[], byte[]> fromLine(JsonNode line) throws IOException {
        Integer to = number("partition") == -1 ? null : number("partition");
        long time = line.get("timestamp_ms").asLong();
        byte[] key = bytes(line.get("key"));
        var record = new ProducerRecord<>(text("topic"), to, time, key, bytes(line.get("value")));
        Headers headers = record.headers();
        for (JsonNode header : line.get("headers")) {
            headers.add(header.get(0).asText(), bytes(header.get(1)));
        }
        return record;
    }

    private static ObjectNode toLine(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode line = JSON.createObjectNode();
        line.put("key", record.key()).put("value", record.value()).put("timestamp_ms", record.timestamp());
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return line;
    }

    /** Jackson's own base64 is the one that is wanted. */
    static byte[] bytes(JsonNode field) throws IOException {
        return field.isNull() ? null : field.binaryValue();
    }

    private TopicPartition partition(int number) {
        return new TopicPartition(text("topic"), number);
    }

    private String text(String name) {
        return options.get(name).asText();
    }

    private int number(String name) {
        return options.get(name).asInt();
    }

    private void answer(ObjectNode line) {
        answers.println(line);
    }
}
