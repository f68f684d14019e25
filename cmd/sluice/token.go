package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// accountSetStaffCmd makes somebody staff. It works only on the server's machine: no member of staff may make others.
func (p *program) accountSetStaffCmd() *cobra.Command {
	in := admin.StaffFlag{}
	return does(p, &cobra.Command{
		Use: "set-staff ID yes|no", Short: "Make the owner of an account a member of staff, or no longer one", Args: args("ID", "yes or no"),
		Long: "Make the owner of an account a member of staff, or no longer one. Staff may use\nthe support console at /support and the admin API, with two-step sign-in turned on.\nTokens of somebody who is no longer staff are refused at once.",
		PreRunE: func(c *cobra.Command, given []string) error {
			if given[1] != "yes" && given[1] != "no" {
				return misused(c, fmt.Errorf("%q is neither yes nor no", given[1]))
			}
			in.Staff = given[1] == "yes"
			return nil
		},
	}, p.ops.AccountSetStaff, &in, printAccount, &in.Ref)
}

// tokenCmd groups the commands about staff tokens (docs/sell/admin-api.md#tokens).
func (p *program) tokenCmd() *cobra.Command {
	of, in := &admin.AccountPage{}, &admin.Target{} // only one of the commands runs
	return group("token", "Create, list and delete staff tokens for the admin API", p.tokenCreateCmd(),
		// Without their text, which is not stored.
		lists(p, &cobra.Command{Use: "list [ID]", Short: "List the tokens of a member of staff, or of all"}, p.ops.TokenList, of,
			columns[admin.Token]{[]string{"TOKEN", "ACCOUNT", "NAME", "ENDS IN", "SCOPES", "EXPIRES", "LAST USED"}, func(t *admin.Token) []string {
				return []string{t.ID, t.AccountID, t.Name, t.LastFour, commas(t.Scopes), timeText(&t.ExpiresAt), timeText(t.LastUsedAt)}
			}}, &of.Ref),
		// Requests with it are refused from then on.
		does(p, &cobra.Command{Use: "delete TOKENID", Short: "Delete a staff token"}, p.ops.TokenDelete, in, func(w io.Writer, t *admin.Token) {
			fmt.Fprintf(w, "Deleted token %s (%s).\n", t.ID, t.Name)
		}, &in.Ref))
}

// tokenCreateCmd creates a token. It is printed once and stored only as a hash.
func (p *program) tokenCreateCmd() *cobra.Command {
	var in admin.NewToken
	var scopes []string
	cmd := does(p, &cobra.Command{
		Use: "create ID --name N --scope S...", Short: "Create a staff token and print it",
		Example: "  sluice token create ana@example.com --name nightly --scope accounts:read,billing:read --days 30",
		PreRunE: func(*cobra.Command, []string) error {
			for _, s := range scopes {
				in.Scopes = append(in.Scopes, admin.Scope(s))
			}
			return nil
		},
	}, p.ops.TokenCreate, &in, func(w io.Writer, t *admin.CreatedToken) {
		fmt.Fprintf(w, "Created token %s (%s), valid until %s. It is shown only once:\n\n  %s\n", t.ID, t.Name, timeText(&t.ExpiresAt), t.Text)
	}, &in.Ref)
	var text strings.Builder
	text.WriteString("Create a staff token for a member of staff. The scopes are:\n")
	for _, s := range admin.Scopes() {
		fmt.Fprintf(&text, "\n  %-18s %s", s.Scope, s.Text)
	}
	cmd.Long = text.String()
	cmd.Flags().StringVar(&in.Name, "name", "", "display `name` of the token")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "`scopes`, separated by commas")
	cmd.Flags().IntVar(&in.Days, "days", 90, "number of `days` it is valid")
	return requires(cmd, "name", "scope")
}
