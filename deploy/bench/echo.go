package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// echoCommand has the bench be the least server that acknowledges what is synced: it writes what comes over its one connection to a
// file, syncs it, and answers. Nothing that is asked over TCP, by a process of Go, can be faster on this machine.
const echoCommand = "echo"

// echoAnswer is the size of an answer to a produce request of one partition, about, without the four bytes that say it.
const echoAnswer = 56

// echo answers requests of size bytes.
func echo(file, size string) error {
	ask, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println(l.Addr())
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, ask)
	answer := binary.BigEndian.AppendUint32(nil, echoAnswer)
	answer = append(answer, make([]byte, echoAnswer)...)
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if _, err := f.Write(buf); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

// asker is the least client: it sends the same request again and again, and waits for each answer.
type asker struct {
	conn   net.Conn
	ask    []byte
	answer []byte
}

func newAsker(addr string, ask []byte) (*asker, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &asker{conn: c, ask: ask, answer: make([]byte, 1024)}, nil
}

// times asks rounds times, one after the other. What was answered last is in a.answer.
func (a *asker) times(rounds int) (took []time.Duration, err error) {
	for range rounds {
		began := time.Now()
		if _, err := a.conn.Write(a.ask); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(a.conn, a.answer[:4]); err != nil {
			return nil, err
		}
		n := int(binary.BigEndian.Uint32(a.answer))
		if n > cap(a.answer) {
			return nil, fmt.Errorf("an answer of %d bytes", n)
		}
		a.answer = a.answer[:n]
		if _, err := io.ReadFull(a.conn, a.answer); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// echoes asks a server of echoCommand.
func (b *bench) echoes(ctx context.Context, ask []byte, rounds int) (took []time.Duration, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, echoCommand, filepath.Join(b.dir, "echo"), strconv.Itoa(len(ask)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	a, err := newAsker(strings.TrimSpace(addr), ask)
	if err != nil {
		return nil, err
	}
	defer a.conn.Close()
	return a.times(rounds)
}

// produces asks Millrace in the same way to take a record, acknowledged by all.
func produces(addr string, ask []byte, rounds int) (took []time.Duration, err error) {
	a, err := newAsker(addr, ask)
	if err != nil {
		return nil, err
	}
	defer a.conn.Close()
	if took, err = a.times(rounds); err != nil {
		return nil, err
	}
	resp := kmsg.ProduceResponse{Version: produceVersion}
	if err := resp.ReadFrom(a.answer[4:]); err != nil { // behind the correlation id
		return nil, err
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset < int64(rounds)-1 {
		return nil, fmt.Errorf("the last of %d records at offset %d: %w", rounds, p.BaseOffset, kerr.ErrorForCode(p.ErrorCode))
	}
	return took, nil
}

// produceVersion is the last one of Produce whose header says no more than the correlation id.
const produceVersion = 8

// produceOne is a Produce request for one record in partition 0 of a topic.
func produceOne(topic string, value []byte) []byte {
	record := kmsg.Record{Value: value}
	body := record.AppendTo(nil)
	record.Length = int32(len(body) - 1) // a length of 0 has one byte
	body = record.AppendTo(body[:0])
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: body,
	}
	const head, summed = 12, 21 // bytes before what Length counts, and before what CRC sums
	batch.Length = int32(len(batch.AppendTo(nil)) - head)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[summed:], crc32.MakeTable(crc32.Castagnoli)))

	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = batch.AppendTo(nil)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ProduceRequestTopicPartition{part}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis, req.Topics = produceVersion, -1, 30_000, []kmsg.ProduceRequestTopic{t}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}
