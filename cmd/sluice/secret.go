package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/store/installation"
)

// resetSecretCmd deletes what can no longer be decrypted, so that the server starts again. It
// needs --yes because it weakens the accounts that used two-step sign-in. It works on the
// database directly: a server that lacks the secret does not start, so there is none to ask.
func (p *program) resetSecretCmd() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "reset-secret", Short: "Delete encrypted data whose secret is lost", Args: args(),
		Long: `Delete the encrypted data in the database if its secret is lost.

Second-factor secrets and the key that signs links to videos are encrypted
in the database, with secret.key in the data folder or with SLUICE_SECRET.
If both are lost, this command deletes the encrypted data. Every account that
used two-step sign-in then has only its password, and existing links to videos
stop working. Accounts, keys, plans and usage are kept.

Stop the server on every node first. The next start creates a new secret.`,
		RunE: func(c *cobra.Command, _ []string) error {
			// A mistake of the command line and not a question: the command must also work in scripts.
			if !yes {
				return misused(c, errors.New("this turns off two-step sign-in for every account that uses it; add --yes if the secret is permanently lost"))
			}
			cfg, err := p.load()
			if err != nil {
				return err
			}
			n, err := installation.ResetSecret(c.Context(), cfg.Database, cfg.Data)
			if err != nil {
				return err
			}
			return p.print(map[string]int{"accounts": n}, func(w io.Writer) {
				fmt.Fprintf(w, "Deleted the encrypted data. Accounts that lost their second factor: %d. Ask their owners to turn it on again.\n", n)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}
