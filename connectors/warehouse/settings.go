package warehouse

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/avro/avrodata"
	"millrace/schema/config"
	"millrace/schema/converters"
)

const (
	groupFiles   = "Storage"
	groupFormats = "Formats"
)

// The settings of files.
var (
	flushSize = config.Key[int32]{Name: "flush.size", Required: true, Importance: config.High, Group: groupFiles, Check: config.AtLeast[int32](1),
		Doc: "Records of a file: when one has so many, all files that are open for its partition of the topic are finished."}
	rotateInterval = config.Key[time.Duration]{Name: "rotate.interval.ms", Default: -time.Millisecond, Importance: config.High, Group: groupFiles, Check: positiveOrOff,
		Doc: "Files are finished when a record comes whose time is so much later than the first one's. It takes a record to notice: a topic that falls silent keeps its last files open. -1: never."}
	rotateSchedule = config.Key[time.Duration]{Name: "rotate.schedule.interval.ms", Default: -time.Millisecond, Group: groupFiles, Check: positiveOrOff,
		Doc: "Files are finished by the clock, so often, counted from midnight in timezone, whether records come or not. In S3 a record may come twice then, after a failure. -1: never."}
	rotateOnChange = config.Key[bool]{Name: "rotate.file.on.partition.change", Default: true, Importance: config.Low, Group: groupFiles,
		Doc: "With rotate.interval.ms and folders by time: whether files are finished when a record belongs to a later folder than those before it. A late record never finishes any."}
	rotateBytes = config.Key[int64]{Name: "rotate.size.bytes", Default: -1, Importance: config.Low, Group: groupFiles, Check: config.AtLeastOneOrOff[int64],
		Doc: "Files are finished when one has so many bytes before it is compressed. -1: never. A key of Millrace's own."}
	maxOpen = config.Key[int32]{Name: "partitioner.max.open.files", Default: -1, Importance: config.Low, Group: groupFiles, Check: config.AtLeastOneOrOff[int32],
		Doc: "Files are finished when so many are open for a partition of a topic. -1: no bound; an open file takes some 8 KiB of memory, and what it holds beyond lies on disk."}
	compatibility = config.Key[string]{Name: "schema.compatibility", Default: "NONE", Importance: config.High, Group: groupFiles, Check: config.OneOf("NONE", "BACKWARD", "FORWARD", "FULL"),
		Doc: "What happens when records of a file have several schemas, where the format has one for a file. NONE: files are finished at each change. BACKWARD, FULL: older records are turned into the newest schema. FORWARD: newer ones into the oldest. Then schemas need versions."}
	topicsDir = config.Key[string]{Name: "topics.dir", Default: "topics", Importance: config.High, Group: groupFiles,
		Doc: "Folder above those of the topics; none where empty."}
	padWidth = config.Key[int32]{Name: "filename.offset.zero.pad.width", Default: 10, Importance: config.Low, Group: groupFiles, Check: config.Between[int32](0, 20),
		Doc: "Digits of offsets in names of files."}
	dirDelim = config.Key[string]{Name: "directory.delim", Default: "/", Importance: config.Low, Group: groupFiles, Check: func(s string) error {
		if s != "/" {
			return errors.New("it is always / here; remove the key")
		}
		return nil
	},
		Doc: "What parts folders; it is / here."}
	fileDelim = config.Key[string]{Name: "file.delim", Default: "+", Importance: config.Low, Group: groupFiles,
		Check: func(s string) error {
			if s == "" || strings.ContainsAny(s, "/0123456789") || len(s) > 8 {
				return errors.New("it parts topic, partition and offset in names of files: at most 8 characters, no / and no digits")
			}
			return nil
		},
		Doc: "What parts topic, partition and offset in names of files."}
	// NullValues is replaced by stores that have another choice.
	NullValues = config.Key[string]{Name: "behavior.on.null.values", Default: "fail", Importance: config.Low, Group: groupFiles, Check: config.OneOf("fail", "ignore"),
		Doc: "What a null value means: ignore it, or fail (the record goes to the dead-letter topic, if there is one)."}

	formatClass = config.Key[config.Class]{Name: "format.class", Required: true, Importance: config.High, Group: groupFormats,
		Check: FormatClass,
		Doc:   "What files are: JsonFormat (a value in a line), StringFormat (a text in a line), ByteArrayFormat (bytes as they are), AvroFormat (Avro's object container) or ParquetFormat."}
	jsonDecimal = config.Key[string]{Name: "json.decimal.format", Default: "BASE64", Importance: config.Low, Group: groupFormats, Check: config.OneOf("BASE64", "NUMERIC"),
		Doc: "How JsonFormat writes decimals: BASE64 (the unscaled bytes) or NUMERIC (a number)."}
	bytesExt = config.Key[string]{Name: "format.bytearray.extension", Default: ".bin", Importance: config.Low, Group: groupFormats, Check: func(s string) error {
		if strings.Contains(s, "/") || len(s) > 32 {
			return errors.New("it is how names of files end: at most 32 characters and no /")
		}
		return nil
	},
		Doc: "How names of ByteArrayFormat's files end."}
	bytesSeparator = config.Key[string]{Name: "format.bytearray.separator", Importance: config.Low, Group: groupFormats,
		Doc: "What ByteArrayFormat writes behind each value; a line feed where it is not set."}
	avroCodec = config.Key[string]{Name: "avro.codec", Default: "null", Importance: config.Low, Group: groupFormats, Check: config.OneOf("null", "deflate", "snappy", "bzip2", "zstd", "zstandard"),
		Doc: "How AvroFormat compresses blocks: null (not at all), deflate, snappy, bzip2 or zstd."}
	parquetCodecName = config.Key[string]{Name: "parquet.codec", Default: "snappy", Importance: config.Low, Group: groupFormats,
		Check: config.OneOf("none", "uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
		Doc:   "How ParquetFormat compresses pages: none (or uncompressed), snappy, gzip, zstd, lz4 (LZ4_RAW) or brotli."}
	avroEnhanced = config.Key[bool]{Name: "enhanced.avro.schema.support", Default: true, Importance: config.Low, Group: groupFormats,
		Doc: "Whether enums stay enums in AvroFormat and ParquetFormat, and union members keep their full names."}
	avroMeta = config.Key[bool]{Name: "connect.meta.data", Default: true, Importance: config.Low, Group: groupFormats,
		Doc: "Whether AvroFormat and ParquetFormat keep what Connect's schemas say in connect.* properties."}
	avroMapKeys = config.Key[bool]{Name: "allow.optional.map.keys", Importance: config.Low, Group: groupFormats,
		Doc: "Whether a map with optional text keys is a map in AvroFormat and ParquetFormat; else it is a list of entries."}
	cacheSize = config.Key[int32]{Name: "schemas.cache.config", Default: 1000, Importance: config.Low, Group: groupFormats, Check: config.AtLeast[int32](1),
		Doc: "Schemas whose encoders are kept."}
)

// Settings are the settings that NewTask reads, those of partitioners among them.
var Settings = config.Define(flushSize, rotateInterval, rotateSchedule, rotateOnChange, rotateBytes, maxOpen, compatibility, topicsDir, padWidth, dirDelim, fileDelim, NullValues,
	formatClass, jsonDecimal, bytesExt, bytesSeparator, avroCodec, parquetCodecName, avroEnhanced, avroMeta, avroMapKeys, cacheSize).Merge(PartitionerSettings).Ignoring(map[string]string{
	"shutdown.timeout.ms":   "a task that is stopped leaves its open files, whose records are read again",
	"schema.cache.size":     "see schemas.cache.config",
	"retry.backoff.ms":      "a task that failed for a cause that may pass is tried again by itself",
	"hive.integration":      "there is no Hive metastore here; folders of name=value are found by Hive, Spark, Trino and DuckDB",
	"hive.*":                "there is no Hive metastore here",
	"s3.elastic.buffer.*":   "buffers grow as they need to",
	"max.write.duration.ms": "writing is bounded by what is under way, and a long one is reported as progress",
})

// SettingsWithFormat are the same where format.class has a default.
func SettingsWithFormat(class config.Class) config.Def {
	withDefault := formatClass
	withDefault.Required, withDefault.Default = false, class
	return Settings.Replacing(withDefault)
}

func positiveOrOff(d time.Duration) error {
	if d != -time.Millisecond && d < time.Millisecond {
		return errors.New("it must be at least 1, or -1 for never")
	}
	return nil
}

// FormatClass checks a key of a further format's class.
func FormatClass(c config.Class) error {
	_, err := formatKind(string(c))
	return err
}

// formatKind is Json, String, ByteArray, Avro or Parquet.
func formatKind(class string) (string, error) {
	switch kind := classKind(class, "Format"); kind {
	case "Json", "String", "ByteArray", "Avro", "Parquet":
		return kind, nil
	}
	return "", errors.New("there is no such format; there are JsonFormat, StringFormat, ByteArrayFormat, AvroFormat and ParquetFormat (Java classes cannot be loaded)")
}

// newFormat makes a format by the settings. gzip compresses JSON and bytes as a whole, at that level; 0 does not.
func newFormat(v config.Values, class config.Class, gzip int) (format, *config.Error) {
	kind, err := formatKind(string(class))
	if err != nil {
		return nil, formatClass.Errorf(v, "%v", err)
	}
	switch kind {
	case "Json":
		c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false", "decimal.format": jsonDecimal.Get(v), "schemas.cache.size": fmt.Sprint(cacheSize.Get(v))}, false)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		return whole(&jsonLines{c}, gzip), nil
	case "String":
		return whole(&textLines{}, gzip), nil
	case "ByteArray":
		separator := "\n"
		if bytesSeparator.Has(v) {
			separator = bytesSeparator.Get(v)
		}
		return whole(&rawBytes{bytesExt.Get(v), separator}, gzip), nil
	}
	if gzip != 0 {
		return nil, formatClass.Errorf(v, "%sFormat compresses its blocks and no whole files; set %s instead", kind, map[string]string{"Avro": avroCodec.Name, "Parquet": parquetCodecName.Name}[kind])
	}
	rows := avroRows{name: kind + "Format", options: avrodata.Options{Enhanced: avroEnhanced.Get(v), MetaData: avroMeta.Get(v), OptionalMapKeys: avroMapKeys.Get(v)}}
	rows.encoders.Limit = int(cacheSize.Get(v))
	if kind == "Parquet" {
		rows.fits = fitsParquet
		return &parquetFiles{avroRows: rows, codec: parquetCodecs[strings.ToLower(parquetCodecName.Get(v))], groupBytes: rowGroupBytes}, nil
	}
	return &container{avroRows: rows, codec: avroCodecs[strings.ToLower(avroCodec.Get(v))]}, nil
}

// whole compresses files of a format with gzip at that level; 0: not at all.
func whole(f format, gzip int) format {
	if gzip == 0 {
		return f
	}
	return &packed{f, gzipPacker(gzip), ".gz"}
}

// set are the settings as a task uses them.
type set struct {
	flushSize, maxOpen   int
	interval, schedule   int64 // milliseconds; negative: never
	onChange, ignoreNull bool
	bytes                int64
	dir, delim           string
	pad                  int
	compatibility        string
	zone                 *time.Location
}

func newSet(v config.Values, p *Partitioner) set {
	return set{flushSize: int(flushSize.Get(v)), maxOpen: int(maxOpen.Get(v)), interval: rotateInterval.Get(v).Milliseconds(), schedule: rotateSchedule.Get(v).Milliseconds(),
		onChange: rotateOnChange.Get(v), ignoreNull: strings.EqualFold(NullValues.Get(v), "ignore"), bytes: rotateBytes.Get(v), dir: strings.Trim(topicsDir.Get(v), "/"),
		delim: fileDelim.Get(v), pad: int(padWidth.Get(v)), compatibility: strings.ToUpper(compatibility.Get(v)), zone: p.Zone()}
}

// name is the name of the file of records of a topic's partition from an offset on, but for its end.
func (s *set) name(topic string, partition int32, folder string, first int64) string {
	return fmt.Sprintf("%s/%s/%s%0*d", s.folder(topic), folder, s.base(topic, partition), s.pad, first)
}

func (s *set) folder(topic string) string {
	if s.dir != "" {
		return s.dir + "/" + topic
	}
	return topic
}

func (s *set) base(topic string, partition int32) string {
	return topic + s.delim + strconv.Itoa(int(partition)) + s.delim
}

// Check returns what is wrong with settings that each by itself are right.
func Check(v config.Values, o Options) []*config.Error {
	_, _, errs := build(v, o)
	return errs
}

// build makes what the settings describe.
func build(v config.Values, o Options) (*Partitioner, []*view, []*config.Error) {
	p, errs := NewPartitioner(v)
	views, err := newViews(v, o)
	if err != nil {
		errs = append(errs, err)
	}
	if rotateSchedule.Get(v) > 0 && timezoneKey.Get(v) == "" {
		errs = append(errs, timezoneKey.Errorf(v, "%s counts from midnight there; give UTC, or a zone such as Europe/Berlin", rotateSchedule.Name))
	}
	if p != nil {
		p.schemaFolder = o.SchemaFolder
	}
	return p, views, errs
}

// Deterministic reports whether the files of settings follow from the records alone: what is written again after a failure has
// the same names and contents. It does not where the clock has a say.
func Deterministic(v config.Values) bool {
	p, errs := NewPartitioner(v)
	return len(errs) == 0 && rotateSchedule.Get(v) < 0 && (!p.wall || !p.timed && rotateInterval.Get(v) < 0)
}

// schemaOf is the schema by which a record's value is written.
func schemaOf(r *schema.Record) *schema.Schema {
	if r.Value.Kind() == schema.Struct {
		return r.Value.Schema() // what the value really is
	}
	return r.ValueSchema
}

// TopicFolder is the folder of a topic's files, with a / behind it.
func TopicFolder(v config.Values, topic string) string {
	s := set{dir: strings.Trim(topicsDir.Get(v), "/")}
	return s.folder(topic) + "/"
}

// BasePrefix is how the names of a partition's files begin, without their folders.
func BasePrefix(v config.Values, tp connectors.TopicPartition) string {
	s := set{delim: fileDelim.Get(v)}
	return s.base(tp.Topic, tp.Partition)
}

// ParseName reads the partition and the offset of the last record from a name that NameWithEnd made, without its folders.
func ParseName(v config.Values, topic, name string) (partition int32, end int64, ok bool) {
	delim := fileDelim.Get(v)
	rest, ok := strings.CutPrefix(name, topic+delim)
	if !ok {
		return 0, 0, false
	}
	fields := strings.SplitN(rest, delim, 3)
	if len(fields) != 3 {
		return 0, 0, false
	}
	number := func(text string, bits int) int64 {
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil || text[0] == '-' || text[0] == '+' {
			ok = false
		}
		return n
	}
	fields[2], _, _ = strings.Cut(fields[2], ".")
	n, first := number(fields[0], 32), number(fields[1], 64)
	end = number(fields[2], 64)
	return int32(n), end, ok && first <= end
}
