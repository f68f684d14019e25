package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// The commands here are what support does with an account beside its plan, limits and keys (docs/support.md).

// accountNoteCmd writes a note for whoever looks at the account next.
func (p *program) accountNoteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "note ID TEXT", Short: "Write a note to the audit log of an account", Args: args("ID", "TEXT"),
		Long: "Write a note to the audit log of an account. The customer can read it in the export\nof their data.",
		RunE: func(c *cobra.Command, given []string) error {
			return p.changeAccount(c, "account.note", admin.Note{Actor: p.actor(), Ref: given[0], Note: given[1]})
		},
	}
}

// accountSessionsCmd lists the browsers in which the owner of an account is signed in.
func (p *program) accountSessionsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "sessions ID", Short: "List where the owner of an account is signed in", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			out, err := fetchAll[admin.Session](c.Context(), p, "account.sessions", func(at admin.Cursor) any { return admin.AccountPage{Ref: given[0], Cursor: at} })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"SESSION", "SIGNED IN", "LAST SEEN", "BY", "ADDRESS", "BROWSER"}}
				for i := range out {
					s := &out[i]
					rows = append(rows, []string{s.ID, timeText(&s.CreatedAt), timeText(&s.SeenAt), s.Via, s.Remote, strings.Join(strings.Fields(s.Agent), " ")})
				}
				table(w, rows)
			})
		},
	}
}

// accountSignOutCmd ends every session and every pending link of an account.
func (p *program) accountSignOutCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "sign-out ID --reason R", Short: "End all sessions and pending links of an account", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.Account
			if err := p.call(c.Context(), "account.sign-out", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { fmt.Fprintf(w, "%s is signed out everywhere.\n", out.Email) })
		},
	}
	addReason(cmd, &reason)
	return cmd
}

// accountResetFactorCmd turns two-step sign-in off for somebody who has lost their phone.
func (p *program) accountResetFactorCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reset-second-factor ID --reason R", Short: "Turn two-step sign-in off and remove all passkeys for somebody who has lost them", Args: args("ID"),
		Long: "Turn two-step sign-in off and sign the account out everywhere. Make sure first who\nis asking: from then on the password alone is enough. The owner is told by mail if a\nserver is running.",
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.Account
			if err := p.call(c.Context(), "account.reset-second-factor", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { fmt.Fprintf(w, "Two-step sign-in of %s is off.\n", out.Email) })
		},
	}
	addReason(cmd, &reason)
	return cmd
}
