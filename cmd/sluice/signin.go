package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/admin"
)

func (p *program) signInLinkCmd() *cobra.Command {
	return &cobra.Command{
		Use: "signin-link E-MAIL", Short: "Make a link that signs somebody in to the dashboard, once", Args: args("E-MAIL"),
		Long: `Make a link that signs the owner of an account in to the dashboard: once, within a day.

It needs no password and no second factor, and for 15 minutes after its use it lets that
person change both. Give it to nobody else. For an address without an account it is an
invitation, good for a week, unless signup is closed.`,
		Example: "  sluice signin-link ana@example.com",
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.SignInLink
			if err := p.call(c.Context(), "signin-link", admin.Target{Actor: p.actor(), Ref: given[0]}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { fmt.Fprintln(w, out.URL) })
		},
	}
}
