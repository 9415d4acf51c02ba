package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// The figures of files in S3: a topic of Avro records becomes Parquet and Avro objects on versitygw.

const (
	s3Rows    = 1_000_000
	s3Flush   = 100_000
	s3Folders = 5000
)

const saleAvro = `{"type":"record","name":"Sale","fields":[{"name":"id","type":"long"},{"name":"folder","type":"string"},{"name":"customer","type":["null","string"]},{"name":"country","type":"string"},` +
	`{"name":"amount","type":"double"},{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"count","type":"int"},{"name":"note","type":["null","string"]},{"name":"paid","type":"boolean"}]}`

// saleRow appends row i as the registry's clients send it.
func saleRow(b []byte, schemaID uint32, i int64) []byte {
	text := func(s string) { b = append(binary.AppendVarint(b, int64(len(s))), s...) }
	b = binary.BigEndian.AppendUint32(append(b, 0), schemaID)
	b = binary.AppendVarint(b, i)
	text(fmt.Sprintf("f%d", i%s3Folders))
	b = append(b, 2)
	text(fmt.Sprintf("customer-%d", i%50_000))
	text([]string{"DE", "FR", "US", "GB", "IT"}[i%5])
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(i)*1.25))
	b = binary.AppendVarint(b, 1_700_000_000_000+i*7)
	b = binary.AppendVarint(b, i%100)
	if i%3 == 0 {
		b = append(b, 0)
	} else {
		b = append(b, 2)
		text(fmt.Sprintf("some note that is longer %d", i))
	}
	return append(b, byte(i%2))
}

func (b *bench) s3(ctx context.Context) (err error) {
	store, err := run.S3(ctx, filepath.Join(b.dir, "s3"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	python, err := run.Install(ctx, "python", os.Stderr)
	if err != nil {
		return err
	}
	m, err := b.millrace(ctx, filepath.Join(b.dir, "s3-millrace"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := fill(ctx, m, "sales", saleAvro, 1, s3Rows, saleRow); err != nil {
		return err
	}
	for _, format := range []string{"Parquet", "Avro"} {
		if err := b.s3Format(ctx, m, store, python, format); err != nil {
			return err
		}
	}
	if err := b.s3Folders(ctx, m, store); err != nil {
		return err
	}
	return b.s3Wide(ctx, m, store)
}

// fill writes a topic of rows.
func fill(ctx context.Context, m *drive.Millrace, topic, avro string, partitions int32, rows int64, row func(b []byte, schemaID uint32, i int64) []byte) error {
	body, err := json.Marshal(map[string]string{"schema": avro})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Registry+"/subjects/"+topic+"-value/versions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var made struct{ ID uint32 }
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("register the schema: status %d: %s", resp.StatusCode, said)
	}
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return fmt.Errorf("register the schema: read the answer: %w", err)
	}
	if err := makeTopic(ctx, m.Kafka, topic, partitions, nil); err != nil {
		return err
	}
	cl, err := kafkaClient(m.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	failed := make(chan error, 1)
	for i := range rows {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: row(nil, made.ID, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func sinkConfig(m *drive.Millrace, store *run.Server, dir, format string, more ...string) map[string]string {
	c := map[string]string{"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "sales", "tasks.max": "1", "s3.bucket.name": run.S3Bucket, "s3.region": run.S3Region,
		"store.url": "http://" + store.Addr, "aws.access.key.id": run.S3AccessKey, "aws.secret.access.key": run.S3SecretKey, "topics.dir": dir, "flush.size": fmt.Sprint(s3Flush),
		"format.class": "io.confluent.connect.s3.format." + strings.ToLower(format) + "." + format + "Format", "avro.codec": "snappy",
		"value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": m.Registry, "key.converter": "org.apache.kafka.connect.storage.StringConverter"}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

func s3Client(store *run.Server) *s3.Client {
	return s3.New(s3.Options{Region: run.S3Region, BaseEndpoint: aws.String("http://" + store.Addr), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(run.S3AccessKey, run.S3SecretKey, "")})
}

// objects are the objects of a folder that are visible, and their bytes.
func objects(ctx context.Context, store *run.Server, dir string) (keys []string, size int64, err error) {
	pages := s3.NewListObjectsV2Paginator(s3Client(store), &s3.ListObjectsV2Input{Bucket: aws.String(run.S3Bucket), Prefix: aws.String(dir + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, o := range page.Contents {
			keys, size = append(keys, *o.Key), size+*o.Size
		}
	}
	return keys, size, nil
}

// sinkRun runs a connector until there are so many objects, and returns what that took.
func (b *bench) sinkRun(ctx context.Context, m *drive.Millrace, store *run.Server, name string, conf map[string]string, want int) (wall, used time.Duration, err error) {
	before, err := cpu(m.Pid())
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if _, err := m.Call(ctx, http.MethodPost, "/connectors", map[string]any{"name": name, "config": conf}); err != nil {
		return 0, 0, err
	}
	if err := m.Await(ctx, name, "RUNNING"); err != nil {
		return 0, 0, err
	}
	for {
		keys, _, err := objects(ctx, store, conf["topics.dir"])
		if err != nil {
			return 0, 0, err
		}
		if len(keys) >= want {
			break
		}
		if time.Since(start) > 5*time.Minute {
			return 0, 0, fmt.Errorf("%s: %d objects after five minutes, want %d", name, len(keys), want)
		}
		time.Sleep(50 * time.Millisecond)
	}
	wall = time.Since(start)
	after, err := cpu(m.Pid())
	if err != nil {
		return 0, 0, err
	}
	_, err = m.Call(ctx, http.MethodDelete, "/connectors/"+name, nil)
	return wall, after - before, err
}

const pyarrowProgram = `
import json, sys, time
import fastavro, pyarrow as pa, pyarrow.parquet as pq
from pyarrow import fs
folder, kind, endpoint, key, secret, region, bucket = sys.argv[1:]
pa.set_cpu_count(1)
rows = ids = 0
used = 0.0
s3 = fs.S3FileSystem(access_key=key, secret_key=secret, region=region, endpoint_override=endpoint, scheme="http")
for i, info in enumerate(s3.get_file_info(fs.FileSelector(bucket + "/" + folder, recursive=True))):
    if not info.is_file: continue
    if kind == "parquet":
        table = pq.read_table(info.path, filesystem=s3)
    else:
        with s3.open_input_stream(info.path) as f:
            table = pa.Table.from_pylist(list(fastavro.reader(f)))
    rows += table.num_rows
    ids += sum(table.column("id").to_pylist())
    if kind == "parquet":
        began = time.process_time()
        pq.write_table(table, f"{bucket}/pyarrow/{i}.parquet", filesystem=s3, compression="snappy")
        used += time.process_time() - began
print(json.dumps([rows, ids, used]))
`

// s3Format is one format's figures, beside the bare upload of the same objects and, for Parquet, beside pyarrow writing the same rows.
func (b *bench) s3Format(ctx context.Context, m *drive.Millrace, store *run.Server, python, format string) error {
	var walls, uses, shares []float64
	var said string
	for i := range b.pairs {
		dir := fmt.Sprintf("%s%d", strings.ToLower(format), i)
		wall, used, err := b.sinkRun(ctx, m, store, "s3-"+dir, sinkConfig(m, store, dir, format), s3Rows/s3Flush)
		if err != nil {
			return err
		}
		keys, size, err := objects(ctx, store, dir)
		if err != nil {
			return err
		}
		bare, err := upload(ctx, store, dir, keys)
		if err != nil {
			return err
		}
		walls, uses, shares = append(walls, wall.Seconds()), append(uses, used.Seconds()), append(shares, bare.Seconds()/wall.Seconds())
		b.print("  pair %d %s: %d rows to %d objects (%.1f MB) in %.2f s, CPU %.2f s with the log; the bare upload of the same objects %.2f s; load %s", i+1, format, s3Rows, len(keys), float64(size)/1e6, wall.Seconds(), used.Seconds(), bare.Seconds(), load())
		if i > 0 {
			continue
		}
		cmd := exec.CommandContext(ctx, python, "-c", pyarrowProgram, dir, strings.ToLower(format), store.Addr, run.S3AccessKey, run.S3SecretKey, run.S3Region, run.S3Bucket)
		var trace strings.Builder
		cmd.Stderr = &trace
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("python: %w\n%s", err, trace.String())
		}
		var got [3]float64
		if err := json.Unmarshal(out, &got); err != nil {
			return err
		}
		if got[0] != s3Rows || got[1] != s3Rows*(s3Rows-1)/2 {
			return fmt.Errorf("%s: %.0f rows with ids of %.0f in all are in the objects", format, got[0], got[1])
		}
		if got[2] > 0 {
			said = fmt.Sprintf("; pyarrow writing the same rows from columns in memory: %.0f rows per CPU second", s3Rows/got[2])
		}
	}
	b.print("a topic of Avro to %s on S3, one task: %.0f rows/s, %.0f rows per CPU second (reading the log and decoding Avro included)%s; %.0f %% of the bare upload's rate for the same bytes",
		format, s3Rows/median(walls), s3Rows/median(uses), said, 100*median(shares))
	return nil
}

// upload sends the same objects once more, four at once as the sink does, and nothing else.
func upload(ctx context.Context, store *run.Server, dir string, keys []string) (time.Duration, error) {
	cl, bodies := s3Client(store), make([][]byte, len(keys))
	for i, key := range keys {
		o, err := cl.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(run.S3Bucket), Key: &key})
		if err != nil {
			return 0, err
		}
		bodies[i], err = io.ReadAll(o.Body)
		if err := errors.Join(err, o.Body.Close()); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, body := range bodies {
		g.Go(func() error {
			_, err := cl.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(run.S3Bucket), Key: aws.String(fmt.Sprintf("bare/%s/%d", dir, i)), Body: bytes.NewReader(body)})
			return err
		})
	}
	err := g.Wait()
	return time.Since(start), err
}

// s3Folders is the memory of the whole process with 5,000 open files, up to all of them being visible.
func (b *bench) s3Folders(ctx context.Context, m *drive.Millrace, store *run.Server) error {
	each := fmt.Sprint(s3Rows / s3Folders)
	return b.s3Memory(ctx, m, store, fmt.Sprintf("%d open folders with %s rows each", s3Folders, each), s3Folders, sinkConfig(m, store, "folders", "Parquet", "flush.size", each,
		"partitioner.class", "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name", "folder"))
}

// s3Wide is the memory with files of a thousand columns, four of which are finished at once.
func (b *bench) s3Wide(ctx context.Context, m *drive.Millrace, store *run.Server) error {
	const columns, partitions, rows, flush = 1000, 4, 6000, 500
	var fields []string
	for i := range columns {
		fields = append(fields, fmt.Sprintf(`{"name":"c%d","type":["null","string"]}`, i))
	}
	if err := fill(ctx, m, "wide", `{"type":"record","name":"Wide","fields":[`+strings.Join(fields, ",")+`]}`, partitions, rows, func(b []byte, schemaID uint32, i int64) []byte {
		b = binary.BigEndian.AppendUint32(append(b, 0), schemaID)
		text := fmt.Sprintf("text %05d", i)
		for range columns {
			b = append(binary.AppendVarint(append(b, 2), int64(len(text))), text...)
		}
		return b
	}); err != nil {
		return err
	}
	return b.s3Memory(ctx, m, store, fmt.Sprintf("%d partitions of %d columns, %d rows a file", partitions, columns, flush), rows/flush,
		sinkConfig(m, store, "wide", "Parquet", "topics", "wide", "flush.size", fmt.Sprint(flush)))
}

// s3Memory is the memory of the whole process while a connector makes so many objects.
func (b *bench) s3Memory(ctx context.Context, m *drive.Millrace, store *run.Server, what string, objects int, conf map[string]string) error {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.Pid()), []byte("5"), 0) // VmHWM starts anew, where the kernel lets us
	wall, used, err := b.sinkRun(ctx, m, store, "s3-"+conf["topics.dir"], conf, objects)
	if err != nil {
		return err
	}
	_, peak, err := memory(m.Pid())
	if err != nil {
		return err
	}
	b.print("%s, to Parquet: %.0f MiB at the highest (VmHWM of the whole process, promised under 300), %.1f s, CPU %.1f s", what, peak, wall.Seconds(), used.Seconds())
	b.promise(peak < 300, "%s take %.0f MiB, promised are under 300", what, peak)
	return nil
}
