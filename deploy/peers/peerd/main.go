// Command peerd owns the real servers that tests share.
//
//	peerd hold COMMAND…    runs COMMAND; tests in it share servers of their own, which are gone when it ends
//	peerd serve RUN        serves a run until nobody has used it for half a minute; tests start it by themselves
//	peerd install [KIND…]  puts together what the peers need: postgres postgres18 mysql mariadb kcat python kafka connect opensearch elasticsearch s3 hdfs
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millrace/deploy/peers/run"
)

func main() {
	status, err := command(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "peerd:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func command(args []string) (int, error) {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return 0, serve(args[1])
	case len(args) >= 2 && args[0] == "hold":
		return hold(args[1:])
	case len(args) >= 1 && args[0] == "install":
		return 0, install(args[1:])
	}
	return 2, errors.New("usage: peerd hold COMMAND… | serve RUN | install [KIND…]")
}

func serve(id string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	linger := 30 * time.Second
	if s := os.Getenv("MILLRACE_PEERS_LINGER"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return fmt.Errorf("MILLRACE_PEERS_LINGER=%s is not a duration such as 30s", s)
		}
		linger = d
	}
	o, err := run.Own(id)
	if err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return errors.Join(err, o.Close())
	}
	ready.Close()
	return errors.Join(o.Wait(ctx, linger), o.Close())
}

func hold(args []string) (int, error) {
	id := "hold-" + strconv.Itoa(os.Getpid())
	o, err := run.Own(id)
	if err != nil {
		return 1, err
	}
	// Ctrl-C reaches the command as well, being sent to the terminal's whole group; we stay until it has ended.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), run.RunEnv+"="+id)
	if err := cmd.Start(); err != nil {
		return 1, errors.Join(err, o.Close())
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGINT {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	status := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err, status = nil, exit.ExitCode()
		if status < 0 {
			status = 1
		}
	}
	return status, errors.Join(err, o.Close())
}

func install(kinds []string) error {
	if len(kinds) == 0 {
		kinds = run.Kinds()
	}
	for _, k := range kinds {
		if !slices.Contains(run.Kinds(), k) && run.SearchVersions[k] == "" {
			return fmt.Errorf("there is no peer %q; there are: %s, and of search servers %s", k, strings.Join(run.Kinds(), " "),
				strings.Join(slices.Sorted(maps.Keys(run.SearchVersions)), " "))
		}
		start := time.Now()
		if _, err := run.Install(context.Background(), k, os.Stderr); err != nil {
			return err
		}
		fmt.Printf("%s is there (%.1f s)\n", k, time.Since(start).Seconds())
	}
	return nil
}
