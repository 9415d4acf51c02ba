package cmd

import (
	"context"

	"github.com/spf13/cobra"
)

func healthCommand() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "health", Short: "Ask a worker whether it is well", Args: cobra.NoArgs,
		Long:    "Asks a worker's GET /health, and ends with 0 when it is well and with another status when it is not, still starts, or does not answer: for what watches over it, a container's health check or a script.",
		Example: "  millrace health\n  millrace health --url https://worker-1:8083 --ca ca.pem --timeout 3s",
		RunE: r.run(func(ctx context.Context, _ []string) error {
			raw, err := r.rest.Raw(ctx, "/health")
			if err != nil || r.curl {
				return err
			}
			body, _ := raw.(map[string]any)
			status, _ := body["status"].(string)
			message, _ := body["message"].(string)
			t := &table{head: []string{"STATUS", "MESSAGE"}}
			t.add(printable(status), printable(message))
			return r.look.write(r.out, t, []any{raw})
		}),
	}
	r.flags(c.Flags())
	return c
}
