import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the Java client experiences with a cluster: `experience` of peers/driver.py. */
final class Experience {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode options;
    private final PrintStream answers;
    private final String topic;
    private final Map<String, String> facts = new java.util.LinkedHashMap<>();

    Experience(JsonNode options, PrintStream answers) {
        this.options = options;
        this.answers = answers;
        this.topic = text("topic");
    }

    private interface Act {
        void run() throws Exception;
    }

    void run() throws Exception {
        switch (text("story")) {
            case "fenced" -> fenced();
            case "timed out" -> timedOut();
            case "aborted" -> aborted();
            case "offsets" -> offsets();
            case "consumer" -> consumer();
            default -> throw new IllegalArgumentException("there is no story " + text("story"));
        }
        ObjectNode line = JSON.createObjectNode();
        facts.forEach(line::put);
        answers.println(line);
    }

    /** A second producer takes the id over while the first one is in a transaction. */
    private void fenced() throws Exception {
        try (var first = producer("fenced", Map.of()); var second = producer("fenced", Map.of())) {
            first.initTransactions();
            first.beginTransaction();
            fact("first record", () -> send(first, 0, "first"));
            second.initTransactions();
            fact("the fenced one's next record", () -> send(first, 0, "late"));
            fact("its commit", first::commitTransaction);
            fact("it goes on", () -> next(first));
            second.beginTransaction();
            fact("the second one's record", () -> send(second, 0, "second"));
            fact("its own commit", second::commitTransaction);
        }
        try (var zombie = producer("zombie", Map.of()); var second = producer("zombie", Map.of())) {
            zombie.initTransactions();
            second.initTransactions();
            zombie.beginTransaction();
            fact("a zombie's record", () -> send(zombie, 0, "zombie"));
            fact("a zombie goes on", () -> next(zombie));
        }
        facts.put("committed", read());
    }

    /** The coordinator aborts a transaction whose time is over; the producer writes on. */
    private void timedOut() throws Exception {
        for (int partition : new int[] {0, 1}) {
            String where = partition == 0 ? "where it had written" : "elsewhere";
            String id = "timed-out-" + partition;
            try (var producer = producer(id, Map.of("transaction.timeout.ms", 1000))) {
                producer.initTransactions();
                producer.beginTransaction();
                send(producer, 0, "early");
                awaitAborted(id);
                fact("late record " + where, () -> send(producer, partition, "late"));
                fact("it goes on, " + where, () -> next(producer));
            }
            try (var producer = producer(id + "-commit", Map.of("transaction.timeout.ms", 1000))) {
                producer.initTransactions();
                producer.beginTransaction();
                send(producer, 0, "early");
                awaitAborted(id + "-commit");
                fact("late commit " + where, producer::commitTransaction);
                fact("it goes on after the commit, " + where, () -> next(producer));
            }
        }
        facts.put("committed", read());
    }

    /** Errors inside a transaction: which end it, which end the producer. */
    private void aborted() throws Exception {
        try (var producer = producer("aborted", Map.of("max.request.size", 10_000_000))) {
            producer.initTransactions();
            producer.beginTransaction();
            fact("too large a record", () -> send(producer, 0, "v".repeat(2_000_000)));
            fact("its commit", producer::commitTransaction);
            fact("it goes on", () -> next(producer));
            producer.beginTransaction();
            fact("a topic with a bad name", () -> producer.send(new ProducerRecord<>("no/name", "v")).get());
            fact("it goes on after the bad name", () -> next(producer));
        }
        fact("a timeout above the maximum", () -> {
            try (var producer = producer("too-long", Map.of("transaction.timeout.ms", 2_000_000_000))) {
                producer.initTransactions();
            }
        });
        facts.put("committed", read());
    }

    /** Offsets in a transaction from one who is no member, or none any more. */
    @SuppressWarnings("removal")
    private void offsets() throws Exception {
        var at = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1));
        Map<String, ConsumerGroupMetadata> whose = new java.util.LinkedHashMap<>();
        whose.put("nobody's group", new ConsumerGroupMetadata(topic + "-nobody"));
        try (var consumer = consumer(topic + "-group", "earliest")) {
            consumer.subscribe(List.of(topic));
            Instant end = Instant.now().plusMillis(Driver.LIMIT_MS);
            while (consumer.assignment().isEmpty() && Instant.now().isBefore(end)) {
                consumer.poll(Duration.ofMillis(100));
            }
            ConsumerGroupMetadata mine = consumer.groupMetadata();
            whose.put("another generation", member(mine, mine.generationId() + 7, mine.memberId()));
            whose.put("an unknown member", member(mine, mine.generationId(), "nobody"));
            whose.put("without a member", new ConsumerGroupMetadata(mine.groupId()));
            for (var entry : whose.entrySet()) {
                try (var producer = producer("offsets " + entry.getKey(), Map.of())) {
                    producer.initTransactions();
                    producer.beginTransaction();
                    fact(entry.getKey(), () -> producer.sendOffsetsToTransaction(at, entry.getValue()));
                    fact(entry.getKey() + ": commit", producer::commitTransaction);
                    fact(entry.getKey() + ": it goes on", () -> next(producer));
                }
            }
        }
    }

    @SuppressWarnings("removal")
    private static ConsumerGroupMetadata member(ConsumerGroupMetadata of, int generation, String member) {
        return new ConsumerGroupMetadata(of.groupId(), generation, member, of.groupInstanceId());
    }

    /** A consumer that is out of range, that is no member, and that names a bad topic. */
    private void consumer() throws Exception {
        try (var producer = producer("before", Map.of())) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, 0, "v");
            producer.commitTransaction();
        }
        var partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(topic + "-alone", "none")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1_000);
            fact("out of range", () -> pollUntilItFails(consumer));
            consumer.seek(partition, 0);
            fact("it reads on", () -> consumer.poll(Duration.ofSeconds(10)).iterator().next());
            fact("a commit of its own", consumer::commitSync);
            fact("no offset in the group", () -> {
                consumer.assign(List.of(new TopicPartition(topic, 1)));
                pollUntilItFails(consumer);
            });
        }
        try (var consumer = consumer(topic + "-bad", "earliest")) {
            consumer.subscribe(List.of("no/name"));
            fact("a topic with a bad name", () -> pollUntilItFails(consumer));
        }
        try (var first = consumer(topic + "-static", "earliest", "i-1"); var second = consumer(topic + "-static", "earliest", "i-1")) {
            joined(first);
            joined(second);
            fact("a fenced instance's commit", () -> first.commitSync(Map.of(partition, new OffsetAndMetadata(1))));
            fact("a fenced instance's poll", () -> pollUntilItFails(first));
        }
    }

    private void joined(KafkaConsumer<String, String> consumer) {
        consumer.subscribe(List.of(topic));
        Instant end = Instant.now().plusMillis(Driver.LIMIT_MS);
        while (consumer.assignment().isEmpty() && Instant.now().isBefore(end)) {
            consumer.poll(Duration.ofMillis(100));
        }
    }

    private static void pollUntilItFails(KafkaConsumer<String, String> consumer) {
        Instant end = Instant.now().plusMillis(Driver.LIMIT_MS);
        while (Instant.now().isBefore(end)) {
            consumer.poll(Duration.ofMillis(100));
        }
    }

    /** The class of what is raised, or of its cause where a future or a bare KafkaException only wraps that. */
    private void fact(String name, Act act) {
        try {
            act.run();
            facts.put(name, "well");
        } catch (ExecutionException error) {
            facts.put(name, error.getCause().getClass().getSimpleName());
        } catch (Exception error) {
            boolean wraps = error.getClass() == KafkaException.class && error.getCause() != null;
            facts.put(name, (wraps ? error.getCause() : error).getClass().getSimpleName());
        }
    }

    /** Abort, and commit another transaction. */
    private void next(KafkaProducer<String, String> producer) throws Exception {
        producer.abortTransaction();
        producer.beginTransaction();
        send(producer, 0, "next");
        producer.commitTransaction();
    }

    private void send(KafkaProducer<String, String> producer, int partition, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, "k", value)).get();
    }

    private void awaitAborted(String id) throws Exception {
        try (Admin admin = Admin.create(Security.with(Map.of("bootstrap.servers", text("bootstrap"))))) {
            String name = topic + "-" + id;
            Instant end = Instant.now().plusMillis(Driver.LIMIT_MS);
            TransactionState state = null;
            while (state != TransactionState.COMPLETE_ABORT) {
                if (Instant.now().isAfter(end)) {
                    throw new IllegalStateException(name + " is still " + state);
                }
                var described = admin.describeTransactions(List.of(name)).description(name);
                state = described.get(Driver.LIMIT_MS, TimeUnit.MILLISECONDS).state();
            }
        }
    }

    /** The committed values of partition 0, to its end. */
    private String read() {
        var values = new StringBuilder();
        try (var consumer = consumer(topic + "-reader", "earliest")) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long last = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < last) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.append(record.value()).append(' '));
            }
        }
        return values.toString().trim();
    }

    private KafkaProducer<String, String> producer(String id, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", text("bootstrap"),
            "transactional.id", topic + "-" + id,
            "max.block.ms", 20_000));
        settings.putAll(more);
        return new KafkaProducer<>(Security.with(settings), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, String reset) {
        return consumer(group, reset, null);
    }

    private KafkaConsumer<String, String> consumer(String group, String reset, String instance) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", text("bootstrap"),
            "group.id", group,
            "enable.auto.commit", false,
            "isolation.level", "read_committed",
            "default.api.timeout.ms", 20_000,
            "auto.offset.reset", reset));
        if (instance != null) {
            settings.put("group.instance.id", instance);
        }
        return new KafkaConsumer<>(Security.with(settings), new StringDeserializer(), new StringDeserializer());
    }

    private String text(String name) {
        return options.get(name).asText();
    }
}
