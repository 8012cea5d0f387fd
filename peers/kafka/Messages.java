import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads messages with Kafka's own classes and writes them again. On its input is, for each message, its name, its
 * version and its bytes with their length. On its output are the bytes that Kafka writes with their length, or -1 and
 * the reason why it can't read them.
 */
public final class Messages {
    public static void main(String[] arguments) throws Exception {
        DataInputStream input = new DataInputStream(System.in);
        DataOutputStream output = new DataOutputStream(System.out);
        while (true) {
            String name;
            try {
                name = input.readUTF();
            } catch (EOFException end) {
                return;
            }
            short version = input.readShort();
            byte[] given = new byte[input.readInt()];
            input.readFully(given);
            try {
                byte[] written = again(name, version, ByteBuffer.wrap(given));
                output.writeInt(written.length);
                output.write(written);
            } catch (Exception error) {
                output.writeInt(-1);
                output.writeUTF(String.valueOf(error.getCause() == null ? error : error.getCause()));
            }
            output.flush();
        }
    }

    private static byte[] again(String name, short version, ByteBuffer given) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.common.message." + name + "Data");
        Message message = (Message)
            type.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(given), version);
        if (given.hasRemaining()) {
            throw new IllegalStateException(given.remaining() + " bytes are left over");
        }
        ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] copy = new byte[written.remaining()];
        written.get(copy);
        return copy;
    }
}
