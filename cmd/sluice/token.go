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
	return &cobra.Command{
		Use: "set-staff ID yes|no", Short: "Make the owner of an account a member of staff, or no longer one", Args: args("ID", "yes or no"),
		Long: "Make the owner of an account a member of staff, or no longer one. Staff may use\nthe support console at /support and the admin API, with two-step sign-in turned on.\nTokens of somebody who is no longer staff are refused at once.",
		RunE: func(c *cobra.Command, given []string) error {
			if given[1] != "yes" && given[1] != "no" {
				return misused(c, fmt.Errorf("%q is neither yes nor no", given[1]))
			}
			return p.changeAccount(c, "account.set-staff", admin.StaffFlag{Actor: p.actor(), Ref: given[0], Staff: given[1] == "yes"})
		},
	}
}

// tokenCmd groups the commands about staff tokens (docs/support.md#tokens).
func (p *program) tokenCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Create, list and delete staff tokens for the admin API", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.tokenCreateCmd(), p.tokenListCmd(), p.tokenDeleteCmd())
	return cmd
}

// tokenCreateCmd creates a token. It is printed once and stored only as a hash.
func (p *program) tokenCreateCmd() *cobra.Command {
	var in admin.NewToken
	var scopes []string
	cmd := &cobra.Command{
		Use: "create ID --name N --scope S...", Short: "Create a staff token and print it", Args: args("ID"),
		Example: "  sluice token create ana@example.com --name nightly --scope accounts:read,billing:read --days 30",
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Ref = p.actor(), given[0]
			for _, s := range scopes {
				in.Scopes = append(in.Scopes, admin.Scope(s))
			}
			var out admin.CreatedToken
			if err := p.call(c.Context(), "staff.token-create", in, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "Created token %s (%s), good until %s. It is shown only once:\n\n  %s\n", out.ID, out.Name, timeText(&out.ExpiresAt), out.Text)
			})
		},
	}
	var text strings.Builder
	text.WriteString("Create a staff token for a member of staff. The scopes are:\n")
	for _, s := range admin.Scopes() {
		fmt.Fprintf(&text, "\n  %-18s %s", s.Scope, s.Text)
	}
	cmd.Long = text.String()
	cmd.Flags().StringVar(&in.Name, "name", "", "display `name` of the token")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "`scopes`, separated by commas")
	cmd.Flags().IntVar(&in.Days, "days", 90, "how many `days` it is good")
	_ = cmd.MarkFlagRequired("name")  // the flag exists
	_ = cmd.MarkFlagRequired("scope") // the flag exists
	return cmd
}

// tokenListCmd prints tokens without their text, which is not stored.
func (p *program) tokenListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list [ID]", Short: "List the tokens of a member of staff, or of all", Args: optional("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			ref := strings.Join(given, "")
			out, err := fetchAll[admin.Token](c.Context(), p, "staff.token-list", func(at admin.Cursor) any { return admin.AccountPage{Ref: ref, Cursor: at} })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"TOKEN", "ACCOUNT", "NAME", "ENDS IN", "SCOPES", "EXPIRES", "LAST USED"}}
				for i := range out {
					t := &out[i]
					scopes := make([]string, len(t.Scopes))
					for j, s := range t.Scopes {
						scopes[j] = string(s)
					}
					rows = append(rows, []string{t.ID, t.AccountID, t.Name, t.LastFour, strings.Join(scopes, ","), timeText(&t.ExpiresAt), timeText(t.LastUsedAt)})
				}
				table(w, rows)
			})
		},
	}
}

// tokenDeleteCmd revokes a token. Requests with it are refused from then on.
func (p *program) tokenDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete TOKENID", Short: "Delete a staff token", Args: args("TOKENID"),
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.Token
			if err := p.call(c.Context(), "staff.token-delete", admin.Target{Actor: p.actor(), Ref: given[0]}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { fmt.Fprintf(w, "Deleted token %s (%s).\n", out.ID, out.Name) })
		},
	}
}
