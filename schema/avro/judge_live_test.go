package avro

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

var update = flag.Bool("update", false, "ask Avro's Java library for testdata/judged.jsonl.gz anew")

// TestJudgesAsJavaDoesNow asks Avro's Java library itself; with MILLRACE_SOAK=1 about many pairs that nobody has seen before.
func TestJudgesAsJavaDoesNow(t *testing.T) {
	java := peers.AvroLibrary(t)
	first, pairs := uint64(1)<<40, 1000
	if trial.Soak() {
		first, pairs = rand.Uint64()>>1, 100_000
	}
	if seed, asked := trial.Again(); asked {
		first, pairs = seed, 1
	}
	if *update {
		first, pairs = 0, 6_000
	}
	var questions, answers bytes.Buffer
	ask := json.NewEncoder(&questions)
	for i := range pairs {
		reader, writer := pairOf(first + uint64(i))
		if err := ask.Encode(map[string]any{"seed": first + uint64(i), "reader": reader, "writer": writer}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := java.Command(ctx, "AvroPeer")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &questions, &answers, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if *update {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(answers.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/judged.jsonl.gz", z.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(&answers)
	lines.Buffer(nil, 1<<20)
	judgedNow := 0
	for ; lines.Scan() && !t.Failed(); judgedNow++ {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if judged(t, v); t.Failed() {
			t.Logf("again with MILLRACE_SEED=%d", v.Seed)
		}
	}
	if !t.Failed() && judgedNow != pairs {
		t.Errorf("%d answers to %d questions: %v", judgedNow, pairs, lines.Err())
	}
}
