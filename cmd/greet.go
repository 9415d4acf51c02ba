package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"millrace/runtime"
)

// greet tells what runs and what to do next: for people on a terminal, else as one
// line of the log.
func (p *process) greet(ctx context.Context, w parts) {
	worker, schemas := w.loaded.Worker, w.schemas
	took, rss := time.Since(processStart()).Round(time.Millisecond), residentMiB()
	names, err := w.herder.Connectors(ctx)
	if err != nil {
		p.lg.Warn("cannot list the connectors yet", "cause", err)
	}
	kafka, api := w.log.Addr(), w.api.URL()
	if !isTerminal(os.Stdout) {
		p.lg.Info("ready", "version", version, "after", took, "resident_mib", rss, "rest", api, "kafka", kafka, "registry", schemas.url(),
			"cluster", w.herder.ClusterID(), "group", worker.GroupID, "connectors", len(names), "data", p.data)
		return
	}
	where := "group " + worker.GroupID
	switch {
	case !p.distributed && w.isNew:
		where = "data " + p.data + " (new)"
	case !p.distributed:
		where = "data " + p.data + " (existing)"
	}
	fmt.Fprintf(p.out, "Millrace %s ready in %v, %d MiB      %s      Ctrl-C stops\n", version, took, rss, where)
	fmt.Fprintf(p.out, "  REST   %s      Registry  %s      Kafka  %s\n", api, orNone(schemas.url()), orNone(kafka))
	switch {
	case w.api.Loopback() && p.kafkaIsLocal(worker):
		fmt.Fprintln(p.out, "  Open to this machine only, no sign-in.")
	case !worker.REST.Insecure:
		fmt.Fprintln(p.out, "  Who comes from another machine signs in.")
	default:
		fmt.Fprintln(p.out, "  Open to whoever reaches these addresses, no sign-in (insecure=true).")
	}
	if len(names)+len(p.connectors) == 0 {
		fmt.Fprintf(p.out, `No connectors yet. Next, in another terminal, stream a file's lines into the topic "lines":
  echo hello > hello.txt
  curl -X POST %s/connectors -H 'Content-Type: application/json' \
    -d '{"name":"hello","config":{"connector.class":"FileStreamSource","file":"hello.txt","topic":"lines"}}'
  curl %s/connectors/hello/status
What else there is: curl %s/connector-plugins     Every setting: millrace docs
`, api, api, api)
		return
	}
	tasks, troubled := 0, 0
	for _, name := range names {
		st, err := w.herder.Status(ctx, name)
		if err != nil {
			continue // deleted meanwhile, or not reported yet
		}
		tasks += len(st.Tasks)
		if hasFailed(st) {
			troubled++
		}
	}
	fmt.Fprintf(p.out, "%d connectors, %d tasks; %s      curl '%s/connectors?expand=status'\n", len(names), tasks, needsYou(troubled), api)
}

func hasFailed(st runtime.Status) bool {
	if st.Connector.State == runtime.Failed {
		return true
	}
	for _, t := range st.Tasks {
		if t.State == runtime.Failed {
			return true
		}
	}
	return false
}

func needsYou(n int) string {
	switch n {
	case 0:
		return "all are well"
	case 1:
		return "1 needs you"
	}
	return strconv.Itoa(n) + " need you"
}

func orNone(s string) string {
	if s == "" {
		return "no port"
	}
	return s
}

// processStart is when the kernel started this process, to be honest about the time
// before main; where it cannot be read, when our code began.
func processStart() time.Time {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return started
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return started
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	up, _, _ := bytes.Cut(uptime, []byte{' '})
	if len(fields) < 20 {
		return started
	}
	ticks, err1 := strconv.ParseFloat(string(fields[19]), 64) // field 22, starttime, in 1/100 s
	seconds, err2 := strconv.ParseFloat(string(up), 64)
	if err1 != nil || err2 != nil {
		return started
	}
	at := time.Now().Add(-time.Duration((seconds - ticks/100) * float64(time.Second)))
	if at.After(started) {
		return started // a coarse clock
	}
	return at
}

// residentMiB is the memory of this process that is in RAM, 0 where unknown.
func residentMiB() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err == nil {
				return kb / 1024
			}
		}
	}
	return 0
}

// isTerminal reports whether f is a terminal that a person looks at.
func isTerminal(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
