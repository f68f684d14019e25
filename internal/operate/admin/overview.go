package admin

import (
	"context"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/overview"
)

// noServer is what operations return that need a running server.
func noServer() error {
	return fault.New(fault.Conflict, "No server runs on this data folder, so there is nothing to see.")
}

// overviewShow returns the state of the service at a glance.
func (b *Backend) overviewShow(ctx context.Context, _ Empty) (overview.Report, error) {
	if b.Reports == nil {
		return overview.Report{}, noServer()
	}
	return b.Reports.Report(ctx), nil
}

// upstreamSeries returns the targets of this server with what all servers did with them in the last three hours.
func (b *Backend) upstreamSeries(ctx context.Context, in Cursor) (List[overview.Upstream], error) {
	if b.Reports == nil {
		return List[overview.Upstream]{}, noServer()
	}
	return part(b.Reports.Upstreams(ctx), in, func(u overview.Upstream) string { return targetCursor(&u.TargetHealth) }), nil
}
