package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/app"
)

// upgradeCmd groups what helps to replace this program by another version.
func (p *program) upgradeCmd() *cobra.Command {
	return group("upgrade", "Prepare the upgrade to this version", &cobra.Command{
		Use: "check", Short: "Say whether this version can serve the installation, and what its start would change", Args: args(),
		Long: `Check the configuration and the tables of the database against this version of
sluice. Run it with the new binary, while the old one serves. It changes nothing.

The exit code is 1 if this version would not start.`,
		Example: "  /tmp/sluice-new upgrade check --config /etc/sluice/sluice.yaml",
		RunE:    func(c *cobra.Command, _ []string) error { return p.report(p.examine(c.Context(), app.CheckUpgrade)) },
	})
}
