package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"millrace/deploy/peers/run"
)

//go:embed Chain.java
var chainSource []byte

// transforms puts a chain of five of Kafka's transforms on a struct of 8 fields beside Kafka's own classes, in records per
// second of CPU, and tells what each transform costs.
func (b *bench) transforms(ctx context.Context) error {
	tools, err := run.KafkaTools(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(b.dir, "Chain.java")
	if err := os.WriteFile(source, chainSource, 0o644); err != nil {
		return err
	}
	var ours, theirs []float64
	var allocs float64
	for i := range b.pairs {
		mine := func() error {
			fields, err := goBenchmark(ctx, "./transforms", "^BenchmarkChainOfFive$")
			if err != nil {
				return err
			}
			ours, allocs = append(ours, fields["records/cpu-s"]), fields["allocs/op"]
			return nil
		}
		java := func() error {
			// Without the limits of JavaTools.Command, which are for tools that run for a moment.
			out, err := exec.CommandContext(ctx, tools.Java, "-Xmx512m", "-cp", tools.Classpath, source, "3000000").Output()
			if err != nil {
				return fmt.Errorf("Kafka's chain: %w", err)
			}
			text, _, ok := strings.Cut(strings.TrimSpace(string(out)), " records/cpu-s")
			n, err := strconv.ParseFloat(text[strings.LastIndexByte(text, '\n')+1:], 64)
			if err != nil || !ok {
				return fmt.Errorf("Kafka's chain printed %q", out)
			}
			theirs = append(theirs, n)
			return nil
		}
		pair := []func() error{mine, java}
		if i%2 == 1 {
			slices.Reverse(pair)
		}
		for _, f := range pair {
			if err := f(); err != nil {
				return err
			}
		}
		b.print("pair %d: a chain of five: ours %.0f, Kafka's classes %.0f records per CPU second", i+1, ours[i], theirs[i])
	}
	ratio := median(ours) / median(theirs)
	b.print("a chain of five on 8 fields: %.0f records per CPU second, %.1f times Kafka's %.0f; %.0f allocations a record", median(ours), ratio, median(theirs), allocs)
	b.promise(ratio >= 5, "a chain of five makes %.1f times the records of Kafka's, promised are 5", ratio)
	for _, pkg := range []string{"./transforms", "./transforms/debezium"} {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkTransforms$", "-benchtime", "0.2s", "-benchmem", pkg)
		text, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, text)
		}
		for line := range strings.Lines(string(text)) {
			if name, rest, ok := strings.Cut(line, "/"); ok && name == "BenchmarkTransforms" {
				f := strings.Fields(rest)
				if len(f) > 7 {
					b.print("%s: %s ns, %s allocations a record", f[0], f[2], f[6])
				}
			}
		}
	}
	return nil
}

// goBenchmark runs one Go benchmark and returns its figures by unit.
func goBenchmark(ctx context.Context, pkg, pattern string) (map[string]float64, error) {
	text, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", "3s", "-benchmem", pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		out := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if out[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, errors.New("the benchmark printed nothing:\n" + string(text))
}
