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
	of, in := &admin.AccountPage{}, &admin.Target{} // only one of the commands runs
	return group("key", "Create, list and revoke API keys", p.keyCreateCmd(), p.keyLimitsCmd(), p.keyDeleteCmd(), p.keyImportCmd(),
		lists(p, &cobra.Command{Use: "list ID", Short: "List the keys of an account"}, p.ops.KeyList, of, keyColumns(), &of.Ref),
		// The master key has no name. The key itself stays the same, so programs that use it notice nothing.
		does(p, &cobra.Command{Use: "rename KEYID NAME", Short: "Rename a sub-key"}, p.ops.KeyRename, in, func(w io.Writer, k *admin.Key) {
			fmt.Fprintf(w, "Renamed key %s to %s.\n", k.ID, k.Name)
		}, &in.Ref, &in.Name),
		// Also how the owner gets a first key on a server without a terminal, so the account may be left out: an empty Ref is
		// the owner account.
		does(p, &cobra.Command{
			Use: "regenerate-master [ID]", Short: "Replace a master key and print the new one",
			Long: "Replace the master key of an account. The old key stops working immediately.\nWithout an ID, the key of the owner account is replaced: " + account.OwnerEmail + ".",
		}, p.ops.KeyRegenerateMaster, in, func(w io.Writer, k *admin.RawKey) {
			fmt.Fprintf(w, "The old master key no longer works. The new key is shown only once:\n\n  %s\n", k.Key)
		}, &in.Ref),
		// As abuse control does at a score of 100 (docs/api.md#abuse-control). The account can still sign in to the dashboard.
		addReason(does(p, &cobra.Command{Use: "deactivate ID --reason R", Short: "Deactivate all keys of an account"}, p.ops.KeyDeactivate, in, printAccount, &in.Ref), &in.Reason),
		// The abuse score is reset, too. Without that the next request would deactivate the keys again.
		mayReason(does(p, &cobra.Command{Use: "restore ID", Short: "Reactivate the keys of an account"}, p.ops.KeyRestore, in, printAccount, &in.Ref), &in.Reason))
}

// keyCreateCmd creates a sub-key. The key is printed once and stored only as a hash, so
// nobody can look it up later. The number of sub-keys is limited
// (docs/api.md#other-constants).
func (p *program) keyCreateCmd() *cobra.Command {
	in := admin.KeyOrder{}
	var flags limitFlags
	var perSession string
	cmd := does(p, &cobra.Command{
		Use: "create ID --name N", Short: "Create a sub-key and print it",
		PreRunE: func(c *cobra.Command, _ []string) error {
			var err error
			if c.Flags().Changed("session-cap") {
				in.SessionCap = &perSession
			}
			if in.Tags, err = tagsOf(c); err != nil || !flags.given() {
				return err
			}
			in.Limits = &admin.KeyLimits{}
			return flags.apply(c, in.Limits)
		},
	}, p.ops.KeyCreate, &in, func(w io.Writer, k *admin.NewKey) {
		fmt.Fprintf(w, "Created key %s (%s). It is shown only once:\n\n  %s\n", k.ID, k.Name, k.Key)
		if k.Budget != "" {
			fmt.Fprintf(w, "\nEach session of the key may cost at most $%s: \"sluice budget set --id %s\" changes that.\n", perSession, k.Budget)
		}
	}, &in.Ref)
	cmd.Flags().StringVar(&in.Name, "name", "", "display `name` of the key")
	cmd.Flags().StringVar(&perSession, "session-cap", "", "`dollars` that each session of the key may cost, such as 2.50; this makes a budget")
	flags.add(cmd)
	addTags(cmd)
	return requires(cmd, "name")
}

// keyDeleteCmd deletes a sub-key. The master key can only be replaced. Requests with the key
// are refused from then on; its usage stays.
func (p *program) keyDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete KEYID", Short: "Delete a sub-key permanently", Args: args("KEYID"),
		RunE: func(c *cobra.Command, given []string) error {
			if _, err := ask(c.Context(), p, p.ops.KeyDelete, admin.Target{Ref: given[0]}); err != nil {
				return err
			}
			return p.print(map[string]any{"id": given[0], "deleted": true}, func(w io.Writer) {
				fmt.Fprintf(w, "Deleted key %s.\n", given[0])
			})
		},
	}
}
