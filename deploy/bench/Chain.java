import java.lang.management.ManagementFactory;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.*;

/** Kafka's own classes in the chain of BenchmarkChainOfFive; prints records per second of the process's CPU, once it is warm. */
public class Chain {
    public static void main(String[] args) {
        InsertField.Value<SourceRecord> insert = new InsertField.Value<>();
        insert.configure(Map.of("static.field", "origin", "static.value", "shop", "topic.field", "topic"));
        ReplaceField.Value<SourceRecord> replace = new ReplaceField.Value<>();
        replace.configure(Map.of("exclude", "note", "renames", "name:customer"));
        Cast.Value<SourceRecord> cast = new Cast.Value<>();
        cast.configure(Map.of("spec", "amount:string"));
        MaskField.Value<SourceRecord> mask = new MaskField.Value<>();
        mask.configure(Map.of("fields", "email"));
        ValueToKey<SourceRecord> key = new ValueToKey<>();
        key.configure(Map.of("fields", "id"));
        Schema s = SchemaBuilder.struct().name("orders.Value").field("id", Schema.INT64_SCHEMA).field("name", Schema.OPTIONAL_STRING_SCHEMA).field("email", Schema.OPTIONAL_STRING_SCHEMA)
            .field("amount", Schema.INT32_SCHEMA).field("price", Schema.FLOAT64_SCHEMA).field("paid", Schema.BOOLEAN_SCHEMA).field("note", Schema.OPTIONAL_STRING_SCHEMA).field("at", Schema.INT64_SCHEMA).build();
        Struct v = new Struct(s).put("id", 7L).put("name", "Ann").put("email", "ann@example.com").put("amount", 12).put("price", 1.5).put("paid", true).put("note", "by the door").put("at", 1709210096789L);
        SourceRecord r = new SourceRecord(Map.of(), Map.of(), "orders", null, null, null, s, v, 1709210096789L);
        int n = Integer.parseInt(args[0]);
        long seen = 0;
        for (int round = 0; round < 2; round++) {
            long began = cpu();
            for (int i = 0; i < n; i++)
                seen += key.apply(mask.apply(cast.apply(replace.apply(insert.apply(r))))).key() == null ? 0 : 1;
            if (round == 1) // the first one warms up
                System.out.printf("%d records/cpu-s%n", (long) (n / ((cpu() - began) / 1e9)));
        }
        if (seen != 2L * n) throw new IllegalStateException();
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
