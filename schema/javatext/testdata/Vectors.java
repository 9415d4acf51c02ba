import java.util.*;
import java.util.regex.*;

/** Makes regex.jsonl and floats.txt: java Vectors.java regex | gzip -9n > regex.jsonl.gz; java Vectors.java floats > floats.txt. */
public class Vectors {
    static String q(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    public static void main(String[] a) {
        if (a[0].equals("floats")) floats(); else regex();
    }

    static void regex() {
        String[] patterns = {
            "ord(.*)", "rder", "(a|ab)(c|bcd)(d*)", "a|ab", "(?<x>o+)(r)d", "(?i)ORD.*", "(?i:o)rd.*", "o(?i)RD(?-i)ers", "(?iu)\u00c4.*", "(?i)\u00c4.*", "[a-z]+", "[^a-z]+", "[a-z&&[^o]]+", "[a-d[m-p]]+", "[^a&&b]+",
            "[]a]+", "[a\\]]+", "[\\w.-]+", "\\d+", "\\D+", "\\w+\\.\\w+", "\\s*", "\\S+", "\\h+", "\\H+", "\\p{Alpha}+", "\\p{L}+", "\\pL+", "\\P{L}+", "\\p{IsGreek}+", "\\p{Lu}\\p{Ll}*", "\\Qa.b\\E", "\\Qab\\E+", "a.b", "(?s)a.b", "a$", "(?m)^b$", "^a\\Z", "a\\z",
            "(?=ord)\\w+", "(?!ord)\\w+", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?<n>a)\\k<n>", "a++b", "a*+a", "(?>a+)b", "a+?", "a{2}", "a{2,}", "a{2,3}", "a{2,3}?b", "x*", "(x*)*", "(a*)+", "((a)|b)+", "(a)|b", "(?x) a b # c\n c", "\\x61", "\\u0061", "\\x{61}", "\\0141", "\\t", "\\cA",
            "\\ba\\b", "\\Ba", "(.*?)\\.(.*)\\.(.*)", "(.*)\\.inv\\.part_.", "pre-(.*)", "([^.]+)\\.([^.]+)\\.([^.]+)", "\u00e9+", "[\u00e0-\u00ff]+", ".", "..", "\ud83d\ude00", "[\ud83d\ude00]", "a||b", "", "()", "(?:)", "\\R", "a\\Rb", "[+--]", "[a-]", "[-a]", "[\\d-z]", "\\-", "\\_", "\\ ", "_", "a{,2}", "a{2", "a{3,2}",
            "(", ")", "[", "*a", "+", "?", "a**", "a{1}{2}", "{", "}", "]", "\\", "\\y", "(?<1>a)", "(?<a>a)(?<a>b)", "(?z)", "\\p{Nope}", "[b-a]", "(?<a", "\\k<z>", "[a&&]", "\\xZZ", "\\u12", "(?:a", "a\\Q", "\\Q\\E", "[\\Qa-c\\E]+", "x{1000}", "x{0}", "(?:a|b)*?c", "(?i)[a-c]+", "(?i)[^a-c]+", "\\p{Punct}+", "\\v", "[\\s\\S]+", "[^\\s]+", "[\\W]+"};
        String[] texts = {"orders", "order", "ord", "", "a", "b", "ab", "abcd", "aaab", "aa", "A", "ORDERS", "pg.inv.part_a", "pg.inv.t", "pre-x", "a.b", "a\nb", "a\n", "a\r\n", "\n", "\u00c4a", "\u00e4a", "\u00e9\u00e9", "\u03b1\u03b2", "Ab", "12", "a1_", "a b", "abc", "\ud83d\ude00", "x", "]a", "-", "a\u2028b", "\t", " ", "\u00a0", "_", ".", "c", "ac", "Z9", "}", "]"};
        String[] replacements = {"x", "x-$1", "$2.$1", "${x}!", "\\$1", "$0$0", "$12", "$", "${nope}", "\\", "a\\\\b", "${x", "$a"};
        for (String p : patterns) {
            Pattern c;
            try {
                c = Pattern.compile(p);
            } catch (PatternSyntaxException e) {
                System.out.println("{\"pattern\":" + q(p) + ",\"error\":" + q(e.getMessage()) + "}");
                continue;
            }
            for (String t : texts) {
                Matcher m = c.matcher(t);
                StringBuilder b = new StringBuilder("{\"pattern\":" + q(p) + ",\"text\":" + q(t) + ",\"matches\":" + m.matches() + ",\"find\":" + m.reset().find() + ",\"all\":" + q(m.reset().replaceAll("<$0>")) + ",\"replaced\":{");
                boolean first = true;
                for (String r : replacements) {
                    if (t.length() > 1 && !t.equals("orders") && !t.equals("abcd") && !r.equals("x-$1") && !r.equals("$0$0")) continue;
                    String out;
                    try {
                        out = q(m.reset().replaceFirst(r));
                    } catch (RuntimeException e) {
                        out = "null";
                    }
                    b.append(first ? "" : ",").append(q(r)).append(":").append(out);
                    first = false;
                }
                System.out.println(b.append("}}"));
            }
        }
    }

    static void floats() {
        Random r = new Random(7);
        List<Double> ds = new ArrayList<>(List.of(0.0, -0.0, 1.0, -1.0, 0.1, 1e-3, 9.999e-4, 1e7, 9999999.0, 9999999.9, 1.0E10, 1e21, 1e22, 1e23, 2e23, 123456789.0, 1234567.0, Double.MIN_VALUE, Double.MAX_VALUE, Double.MIN_NORMAL, 2e-323, 1e-322, Double.NaN,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 100.0, 1e15, 1e16, 1e17, 9007199254740993.0, 0.001, 0.0001, 123.456, -0.00123));
        for (int i = 0; i < 400; i++) ds.add(Double.longBitsToDouble(r.nextLong()));
        for (int i = 0; i < 300; i++) ds.add(r.nextInt(2000000) / Math.pow(10, r.nextInt(12)));
        for (double d : ds) System.out.println("d " + Long.toHexString(Double.doubleToLongBits(d)) + " " + d);
        List<Float> fs = new ArrayList<>(List.of(0f, -0f, 1f, 0.1f, 1e-3f, 1e7f, 1e10f, Float.MIN_VALUE, Float.MAX_VALUE, Float.NaN, Float.POSITIVE_INFINITY, 3.3e-44f, 16777216f, 1.0e-45f));
        for (int i = 0; i < 300; i++) fs.add(Float.intBitsToFloat(r.nextInt()));
        for (int i = 0; i < 200; i++) fs.add((float) (r.nextInt(2000000) / Math.pow(10, r.nextInt(12))));
        for (float f : fs) System.out.println("f " + Integer.toHexString(Float.floatToIntBits(f)) + " " + f);
    }
}
