package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/app"
)

// upgradeCmd groups what helps to replace this program by another version.
func (p *program) upgradeCmd() *cobra.Command {
	return group("upgrade", "Prepare the upgrade to this version", &cobra.Command{
		Use: "check", Short: "Say whether this version can serve the installation, and what its start would change", Args: args(),
		Long: `Say what this version of sluice would do to the installation. Run it with the new
binary, while the old one serves: it compares itself with the version that is
running, and changes nothing. It reports

  settings that are wrong for this version, or that it treats differently,
  names that still work and should be replaced,
  migrations of the database, and about how long they take,
  whether servers of both versions can run side by side.

The exit code is 1 if this version would not start.`,
		Example: "  ./sluice upgrade check\n  ./sluice upgrade check --config /etc/sluice/sluice.yaml --data /var/lib/sluice",
		RunE:    func(c *cobra.Command, _ []string) error { return p.report(p.examine(c.Context(), app.CheckUpgrade)) },
	}, p.upgradeDatabaseCmd())
}
