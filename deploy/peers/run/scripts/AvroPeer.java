import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HexFormat;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.Decoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Avro's Java library as a filter. Each line of standard input is a question in JSON, each line of standard output its answer.
 *
 * judge: {"reader":schema,"writer":schema} is answered with the canonical texts, or why one is no schema, and what keeps the reader from
 * reading ("found"). data: {"schema":schema,"data":hex} or {"schema":schema,"json":datum} is answered with both forms of the datum.
 */
public class AvroPeer {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    for (String line; (line = in.readLine()) != null;) {
      JsonNode question = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      if (question.has("seed")) {
        answer.set("seed", question.get("seed"));
      }
      try {
        if (question.has("schema")) {
          data(question, answer);
        } else {
          judge(question, answer);
        }
      } catch (Exception e) {
        answer.put("error", e.toString());
      }
      out.println(JSON.writeValueAsString(answer));
    }
    out.flush();
  }

  static void judge(JsonNode question, ObjectNode answer) {
    Schema reader = parse(answer, "reader", question.get("reader").asText());
    Schema writer = parse(answer, "writer", question.get("writer").asText());
    if (reader == null || writer == null) {
      return;
    }
    ArrayNode found = answer.putArray("found");
    try {
      SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()
          .forEach(i -> found.add(i.getType() + " " + i.getLocation() + " " + i.getMessage()));
    } catch (AvroRuntimeException e) {
      found.add("exception " + e.getMessage());
    }
  }

  static Schema parse(ObjectNode answer, String side, String text) {
    try {
      Schema schema = new Schema.Parser(NameValidator.STRICT_VALIDATOR).parse(text);
      answer.put(side, schema.toString());
      return schema;
    } catch (Exception e) {
      answer.put(side + "Error", String.valueOf(e.getMessage()));
      return null;
    }
  }

  static void data(JsonNode question, ObjectNode answer) throws Exception {
    Schema schema = new Schema.Parser(NameValidator.STRICT_VALIDATOR).parse(question.get("schema").asText());
    byte[] given = question.has("data") ? HexFormat.of().parseHex(question.get("data").asText()) : null;
    Decoder decoder = given != null
        ? DecoderFactory.get().binaryDecoder(given, null)
        : DecoderFactory.get().jsonDecoder(schema, question.get("json").asText());
    Object datum = new GenericDatumReader<Object>(schema).read(null, decoder);
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(written, null);
    new GenericDatumWriter<Object>(schema).write(datum, encoder);
    encoder.flush();
    answer.put("data", HexFormat.of().formatHex(written.toByteArray()));
    answer.put("text", String.valueOf(datum));
  }
}
