package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/ledger/cluster"
)

// additive is the first of the migrations that only add. Servers of the version before work on tables
// that have them; see docs/care/upgrade.md.
const additive = 18

// Upgrade says whether this program could take the place of the one that serves the site, and what its
// first start would change. Like Examine it changes nothing. It calls no provider: a new program calls
// them like the old one.
func Upgrade(ctx context.Context, s *Site) []Finding {
	d := &doctor{site: s}
	d.count()
	d.configuration()
	d.replaced(ctx)
	d.changes()
	d.schema(ctx)
	d.models()
	return d.findings
}

// replaced says which versions run now.
func (d *doctor) replaced(ctx context.Context) {
	d.server(ctx)
	if d.running == nil {
		return
	}
	// server has warned that the version differs, which is the point of an upgrade.
	if last := &d.findings[len(d.findings)-1]; last.State == StateWarning {
		last.State, last.Advice = StateOK, ""
	} else {
		d.ok("server", "it is version %s, and so is this program", d.running.Version)
	}
	for _, n := range d.running.Cluster.Nodes {
		if n.Alive && !n.Me && n.Version != d.running.Version {
			d.add(StateWarning, "server", "End the upgrade before this one first.", "%s runs version %s, this node version %s", cluster.NodeName(n.ID, n.Host), n.Version, d.running.Version)
		}
	}
}

// changes says what this program does differently with the settings as they are. A new installation is used to nothing else.
func (d *doctor) changes() {
	before := ""
	if d.running != nil {
		before = d.running.Version
	} else if d.fresh() {
		return
	}
	for _, text := range d.site.Changes(before) {
		setting, _, _ := strings.Cut(text, ":")
		d.add(StateWarning, "configuration", fmt.Sprintf("\"sluice config docs %s\" explains it.", setting), "%s", text)
	}
}

// fresh reports whether there is no SQLite database yet, although one is configured.
func (d *doctor) fresh() bool {
	_, err := os.Stat(filepath.Join(d.site.Data, d.site.Database.File))
	return d.site.Database.SQLite && err != nil
}

// schema says what the first start of this program would do to the tables.
func (d *doctor) schema(ctx context.Context) {
	const subject = "database"
	if d.fresh() {
		d.ok(subject, "SQLite; the first start creates it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, databasePatience)
	defer cancel()
	in, err := d.site.Database.Inspect(ctx)
	switch pending := in.Known - in.Version; {
	case err != nil:
		d.add(StateProblem, subject, "Check that it runs and that the address, user and password in database are right.", "%s does not answer: %v", in.Engine, err)
	case pending < 0:
		d.add(StateProblem, subject, "Upgrade to a version that is at least as new as the one that set it up. To go back, restore a backup from before.",
			"%s is at version %d and version %s of sluice knows versions up to %d: it would refuse to start", in.Engine, in.Version, buildinfo.Version(), in.Known)
	case in.Unserved != nil:
		d.add(StateProblem, subject, "See docs/run/postgresql.md.", "%v", in.Unserved)
	case pending == 0:
		d.ok(subject, "%s is at version %d; the start changes no table", in.Engine, in.Version)
	case in.Version > 0 && in.Version+1 < additive:
		d.add(StateWarning, subject, "Make a backup, and stop all servers before the first one starts with this version.",
			"the start applies migrations %d to %d of %s, and not all of them only add: older servers do not work on the new tables", in.Version+1, in.Known, in.Engine)
	default:
		d.add(StateWarning, subject, "Make a backup. Then replace and restart one server after the other.",
			"the start applies migrations %d to %d of %s; they only add, so servers of the version before keep working", in.Version+1, in.Known, in.Engine)
	}
	if err == nil && in.Takes >= time.Second {
		d.add(StateWarning, subject, "Plan for it: the server that migrates serves nobody meanwhile. Its log, and /healthz on the address of the metrics, say how far it is.",
			"migrating the %d calls that it holds takes about %s, more on a slow disk", in.Calls, in.Takes.Round(time.Second))
	}
	if err == nil {
		d.secret(in)
	}
}
