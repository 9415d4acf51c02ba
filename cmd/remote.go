package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"millrace/cmd/client"
)

// defaultREST is where a worker of this machine answers.
const defaultREST = "http://127.0.0.1:8083"

// A remote is what all commands share that speak to a worker: where it is, how to get
// in, and how the answer shall look.
type remote struct {
	url, user, ca, context string
	passwordStdin, curl    bool
	timeout                time.Duration
	look                   look

	in       io.Reader
	out, err io.Writer
	env      func(string) string
	at       cliContext
	rest     *client.Client
	options  client.Options
	secrets  map[string]map[string]bool // declared secret keys by connector class
}

// flags declares them for a command and those below it.
func (r *remote) flags(f *pflag.FlagSet) {
	f.StringVar(&r.url, "url", "", "address of the REST API (default MILLRACE_URL, the context's, or "+defaultREST+")")
	f.StringVar(&r.context, "context", "", "name of a context in the configuration file (default: MILLRACE_CONTEXT, or its current one)")
	f.StringVar(&r.user, "user", "", "user to sign in as (default MILLRACE_USER, or the context's)")
	f.BoolVar(&r.passwordStdin, "password-stdin", false, "read the password from standard input (default MILLRACE_PASSWORD, or the context's password-command)")
	f.StringVar(&r.ca, "ca", "", "file of the certificates to trust, PEM (default MILLRACE_CA, the context's, or the system's)")
	f.DurationVar(&r.timeout, "timeout", 30*time.Second, "longest wait for an answer, with the time in which workers settle")
	f.BoolVar(&r.curl, "curl", false, "print the requests as curl commands, and send none")
	r.look.flags(f)
}

// open makes what the flags, the environment and the context say. Each wins over the
// next.
func (r *remote) open(c *cobra.Command) error {
	r.in, r.out, r.err = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
	if r.env == nil {
		r.env = os.Getenv
	}
	if err := r.look.check(r.out, r.env); err != nil {
		return usage(err)
	}
	var err error
	if r.at, err = readContext(cliConfigPath(r.env), cmp.Or(r.context, r.env("MILLRACE_CONTEXT"))); err != nil {
		return usage(err)
	}
	o := client.Options{
		URL:     cmp.Or(r.url, r.env("MILLRACE_URL"), r.at.REST, defaultREST),
		User:    cmp.Or(r.user, r.env("MILLRACE_USER"), r.at.User),
		CA:      cmp.Or(r.ca, r.env("MILLRACE_CA"), r.at.CA),
		Timeout: r.timeout, Notify: r.note, Agent: "millrace/" + version,
	}
	if r.curl {
		o.Curl = r.out
	} else if o.User != "" {
		if o.Password, err = r.password(c.Context()); err != nil {
			return err
		}
	}
	r.options = o
	if r.rest, err = client.New(o); err != nil {
		return usage(err)
	}
	return nil
}

// note tells whoever looks, beside the data.
func (r *remote) note(text string) { fmt.Fprintln(r.err, text) }

// password is the user's. It is never an argument, which others could see.
func (r *remote) password(ctx context.Context) (string, error) {
	switch {
	case r.passwordStdin:
		line, err := bufio.NewReader(io.LimitReader(r.in, 64<<10)).ReadString('\n')
		if err != nil && !(errors.Is(err, io.EOF) && line != "") {
			return "", fmt.Errorf("read the password from standard input: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	case r.env("MILLRACE_PASSWORD") != "":
		return r.env("MILLRACE_PASSWORD"), nil
	case r.at.PasswordCommand != "":
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "sh", "-c", r.at.PasswordCommand)
		c.Stderr, c.Stdin = os.Stderr, os.Stdin
		out, err := c.Output()
		if err != nil {
			return "", fmt.Errorf("password-command of context %q: %w", r.at.Name, err)
		}
		return strings.TrimRight(string(out), "\r\n"), nil
	}
	return "", usage(errors.New("a user is given and no password: set MILLRACE_PASSWORD, or use --password-stdin"))
}

// run makes a command's RunE of a function that speaks to the API.
func (r *remote) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := r.open(c); err != nil {
			return err
		}
		err := f(ctx, args)
		if err != nil && ctx.Err() != nil && c.Context().Err() == nil {
			return errInterrupted
		}
		return err
	}
}

var errInterrupted = errors.New("interrupted")

// ask has a person agree to what cannot be undone. impact says what it is.
func (r *remote) ask(impact string, yes bool, confirm string) error {
	guarded := r.at.Guard == "name"
	switch {
	case r.curl:
		return nil
	case guarded && confirm != "":
		if confirm != r.at.Name {
			return usage(fmt.Errorf("--confirm %s: this is context %q", confirm, r.at.Name))
		}
		return nil
	case yes && !guarded:
		return nil
	case !r.interactive() && guarded:
		return usage(fmt.Errorf("%s in context %q needs --confirm %s", impact, r.at.Name, r.at.Name))
	case !r.interactive():
		return usage(fmt.Errorf("%s: nobody can be asked here; add --yes", impact))
	}
	want := "y"
	if guarded {
		want = r.at.Name
		fmt.Fprintf(r.err, "%s in context %q. Type its name to go on: ", impact, r.at.Name)
	} else {
		fmt.Fprintf(r.err, "%s. Go on? [y/N] ", impact)
	}
	line, err := bufio.NewReader(r.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if got := strings.TrimSpace(line); got == want || !guarded && strings.EqualFold(got, "yes") || !guarded && got == "Y" {
		return nil
	}
	return noError{errors.New("nothing was done")}
}

// interactive reports whether a person can be asked.
func (r *remote) interactive() bool {
	in, ok := r.in.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// A noError is the answer no: exit status 1.
type noError struct{ error }

func (e noError) Unwrap() error { return e.error }

func no(format string, a ...any) error { return noError{fmt.Errorf(format, a...)} }

// exitOf is the exit status that an error asks for.
func exitOf(err error) int {
	var (
		u           usageError
		disk        ioError
		refused     *client.Error
		unreachable *client.UnreachableError
		coded       exitError
	)
	switch {
	case errors.As(err, &coded):
		return coded.status
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &disk):
		return exitIO
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &refused):
		switch s := refused.Status; {
		case s == 404:
			return exitNotFound
		case s == 409:
			return exitConflict
		case s == 401 || s == 403:
			return exitForbidden
		case s >= 500 || s == 405 || s == 501:
			return exitServer
		}
	}
	return exitNo
}

// An exitError has an exit status of its own.
type exitError struct {
	status int
	error
}

func (e exitError) Unwrap() error { return e.error }
