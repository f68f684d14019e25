package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app"
)

func (p *program) resetSecretCmd() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "reset-secret", Short: "Give up what is sealed under a secret that is lost", Args: args(),
		Long: `Give up what is sealed under a secret that is lost.

Second-factor secrets and the key that links to videos are signed with are
sealed in the database, under secret.key in the data folder or SLUICE_SECRET.
Where neither can be found again, this command deletes what is sealed: every
account that used two-step sign-in has only its password from then on, and links
to videos that were given out stop working. Accounts, keys, plans and usage stay.

Stop the server first, on every node. The next start makes a new secret.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !yes {
				return misused(c, errors.New("this turns two-step sign-in off for every account that uses it; add --yes if the secret is lost for good"))
			}
			cfg, err := p.load()
			if err != nil {
				return err
			}
			n, err := app.ResetSecret(c.Context(), cfg)
			if err != nil {
				return err
			}
			return p.print(map[string]int{"accounts": n}, func(w io.Writer) {
				fmt.Fprintf(w, "What was sealed is deleted. Accounts without their second factor now: %d. Ask their owners to turn it on again.\n", n)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}
