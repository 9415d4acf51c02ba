import java.util.*;
import java.util.regex.*;

/** Makes regex.jsonl and floats.txt: java Vectors.java regex | gzip -9n > regex.jsonl.gz; java Vectors.java floats > floats.txt;
 * java -Duser.language=en -Duser.country=US Vectors.java dates > dates.jsonl. */
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
        if (a[0].equals("floats")) floats(); else if (a[0].equals("dates")) dates(); else regex();
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

    static void dates() {
        String[] patterns = {"yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyyMMdd", "yyyyMMddHHmmss", "yy/M/d h:mm a", "EEE, d MMM yyyy HH:mm:ss Z", "EEEE d MMMM yyyy G", "yyyy-MM-dd'T'HH:mm:ssX", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            "D yyyy", "k:mm", "K:mm a", "hh 'o''clock' a, zzzz", "z", "zzzz", "w W F u", "YYYY-'W'ww-u", "S", "SSSSSS", "''yyyy''", "HH", "yyyy", "M", "LLL", "dd.MM.yyyy HH:mm", "yyyy.MM.dd HH", "yyyyy", "y", "", "X", "XX", "b", "'open", "XXXX", "yyyy-MM-dd HH:mm:ss z", "'Q'"};
        long[] moments = {0, 1709210096789L, -1, -86400000L, 951782399999L, 253402300799999L, -62135596800000L, -62135596800001L, -12219292800000L, -12219292800001L, 1735603199000L, 1703980800000L, 1704067199999L, 43200000L, 1000};
        String[] texts = {"2024-02-29 12:34:56.789", "2024-02-29T12:34:56.789Z", "20240229", "20240229123456", "24/2/9 1:05 pm", "99/12/31 12:00 AM", "Thu, 29 Feb 2024 12:34:56 +0130", "Thursday 29 February 2024 AD", "1 January 44 BC", "2024-02-29T12:34:56Z", "2024-02-29T12:34:56+01",
            "2024-02-29T12:34:56.789+01:30", "60 2024", "24:00", "0:15 PM", "12 o'clock PM, Coordinated Universal Time", "2024-13-45 25:61:61.1", "2024-02-29", "x", "", " 2024 ", "2024-02-29 12:34:56.789 and more", "-1", "123456789", "Feb", "february", "29.02.2024 07:08", "2024-02-29 12:34:56 PST", "2024-02-29 12:34:56 GMT+02:00", "1500-01-01 00:00:00.000", "+0100", "-08:00", "Q"};
        for (String p : patterns) {
            java.text.SimpleDateFormat f;
            try {
                f = new java.text.SimpleDateFormat(p);
            } catch (IllegalArgumentException e) {
                System.out.println("{\"pattern\":" + q(p) + ",\"error\":" + q(e.getMessage()) + "}");
                continue;
            }
            f.setTimeZone(TimeZone.getTimeZone("UTC"));
            StringBuilder b = new StringBuilder("{\"pattern\":" + q(p) + ",\"format\":{");
            for (int i = 0; i < moments.length; i++) b.append(i == 0 ? "" : ",").append("\"").append(moments[i]).append("\":").append(q(f.format(new Date(moments[i]))));
            b.append("},\"parse\":{");
            for (int i = 0; i < texts.length; i++) {
                String r;
                f = new java.text.SimpleDateFormat(p);
                f.setTimeZone(TimeZone.getTimeZone("UTC"));
                try {
                    r = String.valueOf(f.parse(texts[i]).getTime());
                } catch (java.text.ParseException e) {
                    r = "null";
                }
                b.append(i == 0 ? "" : ",").append(q(texts[i])).append(":").append(r);
            }
            System.out.println(b.append("}}"));
        }
    }
}
