import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.AclControlManager;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Has Kafka's own classes judge ACLs. Each line of its input is one question, with tabs between its words: first the
 * word that says what is asked, then codes of enums and texts, where <null> stands for null. It answers each with a
 * line.
 */
public final class AclJudge {
    private static StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            for (int at = 0; at < words.length; at++) {
                words[at] = words[at].equals("<null>") ? null : words[at];
            }
            output.println(answer(words, input));
            output.flush();
        }
    }

    private static String answer(String[] words, BufferedReader input) throws Exception {
        switch (words[0]) {
            case "load":
                return load(words[1], words[2], Integer.parseInt(words[3]), input);
            case "names":
                return Stream.of(
                    ResourceType.fromCode(code(words[1])), PatternType.fromCode(code(words[1])),
                    AclPermissionType.fromCode(code(words[1])), operation(words[1]))
                    .map(each -> ((Enum<?>) each).name()).collect(Collectors.joining(" "));
            case "decide":
                return String.valueOf(isAllowed(words, operation(words[3]), resource(words[4], words[5])));
            case "decide_any":
                return String.valueOf(authorizer.authorizeByResourceType(
                    context(words[1], words[2]), operation(words[3]), type(words[4])) == AuthorizationResult.ALLOWED);
            case "operations_of":
                return String.valueOf(operationsOf(words));
            case "check":
                return check(words);
            case "matches":
                return String.valueOf(filter(words, 1).matches(binding(words, 8)));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String load(String superUsers, String allowEveryone, int count, BufferedReader input)
            throws Exception {
        authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
            "node.id", "1", "super.users", superUsers, "allow.everyone.if.no.acl.found", allowEveryone));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (int at = 0; at < count; at++) {
            acls.put(new Uuid(1, at), StandardAcl.fromAclBinding(binding(input.readLine().split("\t", -1), 0)));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        return "loaded";
    }

    private static boolean isAllowed(String[] words, AclOperation operation, ResourcePattern resource)
            throws Exception {
        List<Action> actions = List.of(new Action(operation, resource, 1, false, false));
        return authorizer.authorize(context(words[1], words[2]), actions).get(0) == AuthorizationResult.ALLOWED;
    }

    private static int operationsOf(String[] words) throws Exception {
        ResourcePattern resource = resource(words[3], words[4]);
        Set<Byte> allowed = new HashSet<>();
        for (AclOperation operation : AclEntry.supportedOperations(resource.resourceType())) {
            if (isAllowed(words, operation, resource)) {
                allowed.add(operation.code());
            }
        }
        return Utils.to32BitField(allowed);
    }

    private static String check(String[] words) throws Exception {
        Method check = AclControlManager.class.getDeclaredMethod("validateNewAcl", AclBinding.class, boolean.class);
        check.setAccessible(true);
        try {
            check.invoke(null, binding(words, 1), true);
            return Errors.NONE.name();
        } catch (InvocationTargetException error) {
            return Errors.forException(error.getCause()).name();
        } catch (IllegalArgumentException error) {
            return Errors.forException(error).name();
        }
    }

    private static AclBinding binding(String[] words, int at) {
        return new AclBinding(
            new ResourcePattern(type(words[at]), words[at + 1], PatternType.fromCode(code(words[at + 2]))),
            new AccessControlEntry(
                words[at + 3], words[at + 4], operation(words[at + 5]), AclPermissionType.fromCode(code(words[at + 6]))));
    }

    private static AclBindingFilter filter(String[] words, int at) {
        return new AclBindingFilter(
            new ResourcePatternFilter(type(words[at]), words[at + 1], PatternType.fromCode(code(words[at + 2]))),
            new AccessControlEntryFilter(
                words[at + 3], words[at + 4], operation(words[at + 5]), AclPermissionType.fromCode(code(words[at + 6]))));
    }

    private static ResourcePattern resource(String type, String name) {
        return new ResourcePattern(type(type), name, PatternType.LITERAL);
    }

    private static ResourceType type(String word) {
        return ResourceType.fromCode(code(word));
    }

    private static AclOperation operation(String word) {
        return AclOperation.fromCode(code(word));
    }

    private static byte code(String word) {
        return Byte.parseByte(word);
    }

    private static AuthorizableRequestContext context(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        KafkaPrincipal who = new KafkaPrincipal(parts[0], parts[1]);
        InetAddress where = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            @Override
            public String listenerName() {
                return "PLAINTEXT";
            }

            @Override
            public SecurityProtocol securityProtocol() {
                return SecurityProtocol.PLAINTEXT;
            }

            @Override
            public KafkaPrincipal principal() {
                return who;
            }

            @Override
            public InetAddress clientAddress() {
                return where;
            }

            @Override
            public int requestType() {
                return 0;
            }

            @Override
            public int requestVersion() {
                return 0;
            }

            @Override
            public String clientId() {
                return "";
            }

            @Override
            public int correlationId() {
                return 0;
            }
        };
    }
}
