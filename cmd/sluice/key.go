package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// keyCmd groups the commands about API keys. An account has one master key and some sub-keys
// (docs/api.md#accounts-and-keys). Commands about one key take its id, never the key itself,
// which would end up in the history of a shell.
func (p *program) keyCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Create, list and revoke API keys", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.keyListCmd(), p.keyCreateCmd(), p.keyRenameCmd(), p.keyLimitsCmd(), p.keyDeleteCmd(),
		p.keyRegenerateMasterCmd(), p.keyDeactivateCmd(), p.keyRestoreCmd())
	return cmd
}

// keyListCmd prints the keys of an account, without their secret parts.
func (p *program) keyListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list ID", Short: "List the keys of an account", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			out, err := fetchAll[admin.Key](c.Context(), p, "key.list", func(at admin.Cursor) any { return admin.AccountPage{Ref: given[0], Cursor: at} })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printKeys(w, out) })
		},
	}
}

// keyCreateCmd creates a sub-key. The key is printed once and stored only as a hash, so
// nobody can look it up later. The number of sub-keys is limited
// (docs/api.md#other-constants).
func (p *program) keyCreateCmd() *cobra.Command {
	var name string
	var flags limitFlags
	cmd := &cobra.Command{
		Use: "create ID --name N", Short: "Create a sub-key and print it", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			in := admin.KeyOrder{Target: admin.Target{Actor: p.actor(), Ref: given[0], Name: name}}
			if flags.given() {
				in.Limits = &admin.KeyLimits{}
				if err := flags.apply(in.Limits); err != nil {
					return misused(c, err)
				}
			}
			var out admin.NewKey
			if err := p.call(c.Context(), "key.create", in, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "Created key %s (%s). It is shown only once:\n\n  %s\n", out.ID, out.Name, out.Key)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "display `name` of the key")
	_ = cmd.MarkFlagRequired("name") // the flag exists
	flags.add(cmd)
	return cmd
}

// keyRenameCmd changes the display name of a sub-key. The master key has none. The key itself
// stays the same, so programs that use it notice nothing.
func (p *program) keyRenameCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rename KEYID NAME", Short: "Rename a sub-key", Args: args("KEYID", "NAME"),
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.Key
			if err := p.call(c.Context(), "key.rename", admin.Target{Actor: p.actor(), Ref: given[0], Name: given[1]}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { fmt.Fprintf(w, "Renamed key %s to %s.\n", out.ID, out.Name) })
		},
	}
}

// keyDeleteCmd deletes a sub-key. The master key can only be replaced. Requests with the key
// are refused from then on; its usage stays.
func (p *program) keyDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete KEYID", Short: "Delete a sub-key permanently", Args: args("KEYID"),
		RunE: func(c *cobra.Command, given []string) error {
			if err := p.call(c.Context(), "key.delete", admin.Target{Actor: p.actor(), Ref: given[0]}, &admin.Empty{}); err != nil {
				return err
			}
			return p.print(map[string]any{"id": given[0], "deleted": true}, func(w io.Writer) {
				fmt.Fprintf(w, "Deleted key %s.\n", given[0])
			})
		},
	}
}

// keyRegenerateMasterCmd replaces a master key. It is also how the owner gets a first key on a
// server without a terminal, so the account may be left out.
func (p *program) keyRegenerateMasterCmd() *cobra.Command {
	return &cobra.Command{
		Use: "regenerate-master [ID]", Short: "Replace a master key and print the new one", Args: optional("ID"),
		Long: "Replace the master key of an account. The old key stops working immediately.\nWithout an ID, the key of the owner account is replaced: " + account.OwnerEmail + ".",
		RunE: func(c *cobra.Command, given []string) error {
			// An empty Ref is the owner account.
			in := admin.Target{Actor: p.actor()}
			if len(given) > 0 {
				in.Ref = given[0]
			}
			var out admin.RawKey
			if err := p.call(c.Context(), "key.regenerate-master", in, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "The old master key no longer works. The new key is shown only once:\n\n  %s\n", out.Key)
			})
		},
	}
}

// keyDeactivateCmd deactivates all keys of an account, as abuse control does at a score of
// 100 (docs/api.md#abuse-control). The account can still sign in to the dashboard.
func (p *program) keyDeactivateCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "deactivate ID --reason R", Short: "Deactivate all keys of an account", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.changeAccount(c, "key.deactivate", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason})
		},
	}
	addReason(cmd, &reason)
	return cmd
}

// keyRestoreCmd reactivates the keys and resets the abuse score. Without the reset the next
// request would deactivate them again.
func (p *program) keyRestoreCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "restore ID", Short: "Reactivate the keys of an account", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.changeAccount(c, "key.restore", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason})
		},
	}
	mayReason(cmd, &reason)
	return cmd
}
