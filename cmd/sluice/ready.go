package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/operate/admin"
)

// readyCmd is what health checks of containers run: the image has no other program that could ask.
func (p *program) readyCmd() *cobra.Command {
	wait := time.Duration(0)
	cmd := &cobra.Command{
		Use: "ready", Short: "Report whether the server on this data folder accepts calls", Args: args(),
		Long: `Ask the server on this data folder whether new calls should be sent to it, as
GET /readyz does, and print what is wrong. The exit code is 1 if it does not accept
calls, or if no server is running. With --wait, ask again until it accepts calls.`,
		Example: "  sluice ready\n  sluice ready --wait 1m",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := context.WithTimeout(c.Context(), wait)
			defer stop()
			for {
				st, err := p.askReady(c.Context())
				if err == nil && st.Ready || pace.Sleep(ctx, 100*time.Millisecond) != nil {
					return p.printReady(st, err)
				}
			}
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "`time` to wait for the server")
	return cmd
}

// askReady asks the server on this data folder.
func (p *program) askReady(ctx context.Context) (admin.Status, error) {
	client, data, err := p.dial(ctx)
	if err == nil && client == nil && data == "" {
		_, err = p.load() // which says why the folder is not known
	}
	if err != nil {
		return admin.Status{}, err
	}
	if client == nil {
		return admin.Status{}, fmt.Errorf("no server is running on %s, or it has not finished starting", data)
	}
	return p.ops.StatusShow.Call(ctx, client, admin.Empty{})
}

// printReady prints what the server has said, or returns why it has said nothing.
func (p *program) printReady(st admin.Status, err error) error {
	if err != nil {
		return err
	}
	out := struct {
		Ready  bool            `json:"ready"`
		Checks []health.Result `json:"checks"`
	}{st.Ready, st.Checks}
	return p.judge(out, st.Ready, func(w io.Writer) {
		fmt.Fprintln(w, map[bool]string{true: "ready", false: "not ready"}[st.Ready])
		for _, c := range st.Checks {
			if c.Message != "" {
				fmt.Fprintf(w, "%s: %s\n", c.Name, c.Message)
			}
		}
	})
}
