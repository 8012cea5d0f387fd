import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Consumers that are called from outside, one call at a time: `consumers` of peers/driver.py. */
final class Consumers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream answers;
    private final Map<String, CalledConsumer> open = new HashMap<>();

    Consumers(PrintStream answers) {
        this.answers = answers;
    }

    /** Until stdin ends. */
    void run() throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(JSON.readTree(line)));
            answers.flush();
        }
        open.values().forEach(CalledConsumer::close);
    }

    private ObjectNode answer(JsonNode call) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("gives", call(call.get("who").asText(), call.get("what").asText(), call.get("with")));
        } catch (Exception error) {
            answer.put("raises", error.getClass().getSimpleName()).put("message", error.getMessage());
        }
        return answer;
    }

    private JsonNode call(String who, String what, JsonNode with) throws IOException {
        if (what.equals("open")) {
            open.put(who, new CalledConsumer(with));
            return JSON.nullNode();
        }
        if (what.equals("close")) {
            CalledConsumer closed = open.remove(who);
            closed.close();
            return closed.events();
        }
        return open.get(who).call(what, with);
    }
}
