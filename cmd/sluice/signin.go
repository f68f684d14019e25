package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// signInLinkCmd prints a sign-in link. It is the way in for an owner who has no mail server,
// no password or no second factor. Whoever can run this command has access to the data folder
// and is trusted with every account anyway.
func (p *program) signInLinkCmd() *cobra.Command {
	in := admin.Target{}
	return mayReason(does(p, &cobra.Command{
		Use: "signin-link E-MAIL", Short: "Create a one-time sign-in link for the dashboard",
		Long: `Create a link that signs the owner of an account in to the dashboard. It works
once, within a day.

The link needs no password and no second factor. For 15 minutes after it was
used, that person can change both, so give it to nobody else. For an address
without an account it is an invitation, valid for a week, unless signup is closed.`,
		Example: "  sluice signin-link ana@example.com",
	}, p.ops.SignInLinkCreate, &in, func(w io.Writer, out *admin.SignInLink) { fmt.Fprintln(w, out.URL) }, &in.Ref), &in.Reason)
}
