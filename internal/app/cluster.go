package app

import (
	"cmp"
	"context"
	"os"

	"sluice/internal/account/billing"
	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore"
)

// topicMCP is what nodes tell each other about calls of MCP tools.
const topicMCP = "mcp"

// joinCluster makes this server one of those on its database. With SQLite it is the only one.
func (a *App) joinCluster(ctx context.Context, cfg *config.Config) error {
	a.cluster = cluster.Single()
	if a.facts.alone() {
		return nil
	}
	node, err := a.facts.dir.Node()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // without one, the id is still there
	mode := cluster.ModeOf(cfg.Redis != "", cfg.Cluster != "")
	joined, err := cluster.Join(ctx, a.facts.stores.nodes, node, mode, &cluster.Options{Version: buildinfo.Version(), Host: host, Log: a.log})
	if err == nil { // otherwise close would leave it
		a.cluster = joined
	}
	return err
}

// publishAddress tells the other servers where they reach this one.
func (a *App) publishAddress(ctx context.Context, cfg *config.Config) error {
	if a.facts.alone() {
		return nil
	}
	scheme := "http://"
	if cfg.TLS.Enabled() {
		scheme = "https://"
	}
	a.cluster.Announce(scheme + cmp.Or(cfg.NodeAddress, cluster.Reachable(a.bound, a.facts.store.Near(ctx))))
	return nil
}

// onceJobs returns the work that one server does for all that share the database. It writes to rows that every
// server sees, so that a second one would do it for nothing, or do it twice.
func (a *App) onceJobs() []func(context.Context) {
	return []func(context.Context){
		a.cluster.Every("billing: what is due", billing.VisitEvery, a.billing.Visit),
		a.cluster.Every("billing: lost events", billing.CatchUpEvery, a.billing.CatchUpLost),
		a.cluster.Every("usage: old settlements", usage.DropEvery, a.books.DropOld),
		a.cluster.Every("health: days", overview.AddEvery, a.record.Add),
		a.cluster.Every("alerts", alert.CarryEvery, a.alerts.courier.Carry),
		a.cluster.Every("budgets: marks", budget.LookEvery, a.alerts.budgets.Look),
		a.cluster.Every("expired rows", sqlstore.DropEvery, a.dropExpired),
		a.cluster.Every("support: new matters", ticket.GatherEvery, a.tickets.GatherLogged(a.log)),
	}
}

// tellNodes returns what sends a message to the other servers, or nil if there cannot be any.
func (a *App) tellNodes(topic string) func(ctx context.Context, payload string) error {
	if a.facts.alone() {
		return nil
	}
	return func(ctx context.Context, payload string) error { return a.cluster.Publish(ctx, topic, payload) }
}
