import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Answers a question a line: `name` and a certificate, or `map`, rules and a name. All but the first word is Base64, and
 * so is the answer: what follows `=`, or the exception after `!`.
 */
public class PrincipalJudge {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "=" + answer(line.split("\t", -1));
            } catch (Exception error) {
                answer = "!" + error.getClass().getSimpleName();
            }
            out.println(Base64.getEncoder().encodeToString(answer.getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("map")) {
            return SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
        }
        ByteArrayInputStream encoded = new ByteArrayInputStream(Base64.getDecoder().decode(words[1]));
        X509Certificate certificate =
            (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(encoded);
        return certificate.getSubjectX500Principal().getName();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
