package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/kit/health"
	"sluice/internal/operate/admin"
)

// readyCmd is what health checks of containers run: the image has no other program that could ask.
func (p *program) readyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "ready", Short: "Say whether the server on this data folder takes calls", Args: args(),
		Long: `Ask the server on this data folder whether new calls should be sent to it, as
GET /readyz does, and print what is wrong. The exit code is 1 if it does not take
calls, or if no server is running.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			client, err := admin.Dial(c.Context(), cfg.Data)
			if err != nil {
				return fmt.Errorf("no server is running on %s, or it has not finished its start", cfg.Data)
			}
			st, err := p.ops.StatusShow.Call(c.Context(), client, admin.Empty{})
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
		},
	}
}
