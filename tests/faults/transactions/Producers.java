import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers, driven from outside: java.py says how. Ends at once with its stdin, as if it were killed. */
public final class Producers {
    private static final PrintStream ANSWERS = System.out;

    private final Map<String, Object> settings;
    private final Map<String, Producers.One> all = new HashMap<>();

    private Producers(String[] arguments) {
        int timeout = Integer.parseInt(arguments[1]);
        settings = Map.of(
            "bootstrap.servers", arguments[0],
            "transaction.timeout.ms", timeout,
            "delivery.timeout.ms", timeout,
            "request.timeout.ms", timeout / 2,
            "max.block.ms", Integer.parseInt(arguments[2]),
            "reconnect.backoff.max.ms", 500,
            "linger.ms", 2);
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // what libraries log is no answer
        var producers = new Producers(arguments);
        var calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String[] words = line.split(" ");
            producers.all.computeIfAbsent(words[0], number -> producers.new One()).take(words);
        }
        Runtime.getRuntime().halt(0);
    }

    /** One producer, and the thread that its calls are made on. */
    private final class One {
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private KafkaProducer<byte[], byte[]> producer;

        void take(String[] words) {
            thread.execute(() -> {
                String answer = "ok";
                try {
                    call(words);
                } catch (Exception error) {
                    answer = "error";
                    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                        answer += " " + cause.getClass().getSimpleName() + ": " + cause.getMessage();
                    }
                }
                ANSWERS.println(words[0] + " " + answer.replace('\n', ' '));
            });
        }

        @SuppressWarnings("removal") // a group's metadata without a consumer: its offsets are another program's
        private void call(String[] words) throws Exception {
            switch (words[1]) {
                case "make" -> {
                    Map<String, Object> own = new HashMap<>(settings);
                    own.put("transactional.id", words[2]);
                    producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
                }
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "send" -> producer.send(new ProducerRecord<>(
                    words[2], Integer.parseInt(words[3]), null, words[4].getBytes(StandardCharsets.UTF_8)));
                case "offset" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[3], 0), new OffsetAndMetadata(Long.parseLong(words[4]))),
                    new ConsumerGroupMetadata(words[2]));
                case "flush" -> producer.flush();
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                case "leave" -> {
                    producer.close(Duration.ZERO);
                    thread.shutdown();
                }
                default -> throw new IllegalArgumentException("there is no " + words[1]);
            }
        }
    }
}
