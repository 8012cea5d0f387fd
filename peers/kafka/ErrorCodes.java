import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints the code and the name of each of Kafka's errors, and whether a request may be repeated after it. */
public final class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println(
                error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException));
        }
    }
}
