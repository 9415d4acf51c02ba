package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers/run"
)

// A row as both sides have it: of the topic the after-image of an event, of the table a line of COPY's text.
type row struct {
	ID      int64
	K       int64
	Amount  string // base64 of the unscaled number in the topic, digits in the table
	Name    string
	Created time.Time
	Active  bool
	Score   float64
	Note    string
}

// sum is a checksum of all columns.
func (r *row) sum() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d|%d|%s|%q|%d|%t|%v|%q", r.ID, r.K, r.Amount, r.Name, r.Created.UnixMicro(), r.Active, r.Score, r.Note)
	return h.Sum64()
}

// image is what an applied topic or the table comes to: for each id of 1 to rows the checksum of its row.
type image []uint64

func (m image) total() (all uint64) {
	for i, s := range m {
		all += s * (uint64(i)*2 + 1)
	}
	return all
}

// verify applies the topic's events in order and compares the outcome with the table. Every row must have come once with
// the snapshot and every update once, in order: k counts them.
func (r *run1) verify(ctx context.Context, streamed bool) error {
	began := time.Now()
	table, err := r.table(ctx)
	if err != nil {
		return fmt.Errorf("read the table: %w", err)
	}
	events := r.rows
	if streamed {
		events += 1 + r.updates
	}
	topic, bytes, err := r.applied(ctx, events)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.topic, err)
	}
	for i := range table {
		if table[i] != topic[i] {
			return fmt.Errorf("row %d differs between the table and %s", i+1, r.topic)
		}
	}
	r.print("  read back: %d events of %d bytes, checksum of the rows %016x in %s and %016x in the table (%.0f s)", events, bytes/int64(events), topic.total(), r.topic, table.total(), time.Since(began).Seconds())
	return nil
}

func (r *run1) table(ctx context.Context) (image, error) {
	c, err := pgx.Connect(ctx, run.PostgresDSN(r.server.Addr, "postgres", "", "postgres")+"&timezone=UTC")
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	in, out := io.Pipe()
	go func() {
		_, err := c.PgConn().CopyTo(ctx, out, "COPY (SELECT * FROM rows) TO STDOUT")
		out.CloseWithError(err) // nil is the end
	}()
	m := make(image, r.rows)
	n := 0
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); n++ {
		row, err := tableRow(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Text())
		}
		if row.ID < 1 || row.ID > int64(r.rows) || m[row.ID-1] != 0 {
			return nil, fmt.Errorf("id %d out of place", row.ID)
		}
		m[row.ID-1] = row.sum()
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if n != r.rows {
		return nil, fmt.Errorf("%d rows, want %d", n, r.rows)
	}
	return m, nil
}

func tableRow(line string) (*row, error) {
	f := strings.Split(line, "\t")
	if len(f) != 8 {
		return nil, fmt.Errorf("%d columns", len(f))
	}
	var errs [4]error
	r := &row{Amount: f[2], Name: f[3], Active: f[5] == "t", Note: f[7]}
	r.ID, errs[0] = strconv.ParseInt(f[0], 10, 64)
	r.K, errs[1] = strconv.ParseInt(f[1], 10, 64)
	r.Created, errs[2] = time.Parse("2006-01-02 15:04:05.999999-07", f[4])
	r.Score, errs[3] = strconv.ParseFloat(f[6], 64)
	return r, errors.Join(errs[:]...)
}

type event struct {
	Op    string
	After *struct {
		ID      int64
		K       int64
		Amount  string
		Name    string
		Created time.Time
		Active  bool
		Score   float64
		Note    string
	}
}

func (r *run1) applied(ctx context.Context, want int) (image, int64, error) {
	ends, err := r.adm.ListEndOffsets(ctx, r.topic)
	if err != nil {
		return nil, 0, err
	}
	var partitions []int32
	ends.Each(func(o kadm.ListedOffset) {
		err = errors.Join(err, o.Err)
		partitions = append(partitions, o.Partition)
	})
	if err != nil {
		return nil, 0, err
	}
	if len(partitions) != 1 {
		return nil, 0, fmt.Errorf("%d partitions, want one", len(partitions))
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(r.m.Kafka), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: {partitions[0]: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	m, k := make(image, r.rows), make([]int64, r.rows)
	var size int64
	next := int64(0) // the ends of transactions take offsets, too
	for n := 0; n < want; {
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		fetches := c.PollFetches(soon)
		cancel()
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return nil, 0, fmt.Errorf("behind %d of %d events: %w", n, want, err)
		}
		for _, rec := range fetches.Records() {
			if rec.Offset < next || n == want {
				return nil, 0, fmt.Errorf("offset %d behind offset %d and %d events of %d", rec.Offset, next-1, n, want)
			}
			next = rec.Offset + 1
			row, op, err := topicRow(rec.Value)
			if err != nil {
				return nil, 0, fmt.Errorf("offset %d: %w: %s", n, err, rec.Value)
			}
			if row.ID < 1 || row.ID > int64(r.rows) || !bytes.Equal(rec.Key, []byte(fmt.Sprintf(`{"id":%d}`, row.ID))) {
				return nil, 0, fmt.Errorf("offset %d: key %s with id %d", n, rec.Key, row.ID)
			}
			at := row.ID - 1
			switch {
			case n < r.rows && (op != "r" || m[at] != 0):
				return nil, 0, fmt.Errorf("offset %d: op %s of id %d inside the snapshot, or twice", n, op, row.ID)
			case n >= r.rows && op != "u":
				return nil, 0, fmt.Errorf("offset %d: op %s, want u", n, op)
			case n > r.rows && row.K != k[at]+1:
				return nil, 0, fmt.Errorf("offset %d: k of id %d is %d after %d: an update is missing, doubled or out of order", n, row.ID, row.K, k[at])
			}
			m[at], k[at] = row.sum(), row.K
			size += int64(len(rec.Key) + len(rec.Value))
			for _, h := range rec.Headers {
				size += int64(len(h.Key) + len(h.Value))
			}
			n++
		}
	}
	return m, size, nil
}

func topicRow(value []byte) (*row, string, error) {
	var e event
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, "", err
	}
	if e.After == nil {
		return nil, "", errors.New("no after")
	}
	a := row(*e.After)
	unscaled, err := base64.StdEncoding.DecodeString(a.Amount)
	if err != nil || len(unscaled) == 0 {
		return nil, "", fmt.Errorf("amount %q is no decimal: %w", a.Amount, err)
	}
	a.Amount = decimal(unscaled, 2)
	return &a, e.Op, nil
}

// decimal prints a big-endian two's complement number with that many decimals.
func decimal(unscaled []byte, scale int) string {
	n := new(big.Int).SetBytes(unscaled)
	if unscaled[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(unscaled))))
	}
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
