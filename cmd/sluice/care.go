package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/account/signin"
	"sluice/internal/operate/admin"
)

// The commands here are what support does with an account beside its plan, limits and keys (docs/support.md).

// accountNoteCmd writes a note for whoever looks at the account next.
func (p *program) accountNoteCmd() *cobra.Command {
	in := admin.Note{}
	return does(p, &cobra.Command{
		Use: "note ID TEXT", Short: "Write a note to the audit log of an account", Args: args("ID", "TEXT"),
		Long: "Write a note to the audit log of an account. The customer can read it in the export\nof their data.",
	}, p.ops.AccountNote, &in, printAccount, &in.Ref, &in.Note)
}

// accountSessionsCmd lists the browsers in which the owner of an account is signed in.
func (p *program) accountSessionsCmd() *cobra.Command {
	in := admin.AccountPage{}
	return lists(p, &cobra.Command{Use: "sessions ID", Short: "List where the owner of an account is signed in", Args: args("ID")}, p.ops.AccountSessions, &in,
		columns[signin.Session]{[]string{"SESSION", "SIGNED IN", "LAST SEEN", "BY", "ADDRESS", "BROWSER"}, func(s *signin.Session) []string {
			return []string{s.ID, timeText(&s.CreatedAt), timeText(&s.SeenAt), string(s.Via), s.Remote, strings.Join(strings.Fields(s.Agent), " ")}
		}}, &in.Ref)
}

// accountSignOutCmd ends every session and every pending link of an account.
func (p *program) accountSignOutCmd() *cobra.Command {
	in := admin.Target{}
	return addReason(does(p, &cobra.Command{Use: "sign-out ID --reason R", Short: "End all sessions and pending links of an account", Args: args("ID")},
		p.ops.AccountSignOut, &in, func(w io.Writer, a *admin.Account) { fmt.Fprintf(w, "%s is signed out everywhere.\n", a.Email) }, &in.Ref), &in.Reason)
}

// accountResetFactorCmd turns two-step sign-in off for somebody who has lost their phone.
func (p *program) accountResetFactorCmd() *cobra.Command {
	in := admin.Target{}
	return addReason(does(p, &cobra.Command{
		Use: "reset-second-factor ID --reason R", Short: "Turn two-step sign-in off and remove all passkeys for somebody who has lost them", Args: args("ID"),
		Long: "Turn two-step sign-in off and sign the account out everywhere. First make sure who\nis asking: from then on the password alone is enough. The owner is told by mail if a\nserver is running.",
	}, p.ops.AccountResetSecondFactor, &in, func(w io.Writer, a *admin.Account) {
		fmt.Fprintf(w, "Two-step sign-in of %s is off.\n", a.Email)
	}, &in.Ref), &in.Reason)
}
