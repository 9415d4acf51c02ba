package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const watchEvery = time.Second

// watching shows once, or again and again until interrupted: in place on a terminal;
// elsewhere, and for whoever sets ACCESSIBLE, the lines that are new.
func (k *connectorsCmd) watching(ctx context.Context, show func() error) error {
	if !k.watch || k.curl {
		return show()
	}
	to := k.out
	defer func() { k.out = to }()
	redraw := isTTY(to) && k.env("ACCESSIBLE") != "1" && k.env("TERM") != "dumb"
	before := map[string]bool{}
	for {
		var b bytes.Buffer
		k.out = &b
		err := show()
		var stands exitError // an answer that was shown
		if err != nil && !errors.As(err, &stands) {
			if ctx.Err() != nil {
				return nil
			}
			fmt.Fprintf(&b, "error: %v\n", err)
		}
		if redraw {
			fmt.Fprintf(to, "\x1b[H\x1b[2J%s", b.String())
		} else {
			now := map[string]bool{}
			for line := range strings.Lines(b.String()) {
				now[line] = true
				if !before[line] {
					fmt.Fprint(to, line)
				}
			}
			before = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}
