package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/store/sqlstore/alltest"
)

// learnedWays checks that what was learned of models is kept by name, the last word for each.
func learnedWays(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	for _, w := range [][2]string{{"host/a", "tools"}, {"host/b", "chat"}, {"host/a", "responses"}} {
		must(t, s.AddWay(ctx, w[0], w[1], base))
	}
	got, err := open().Ways(ctx)
	if diff := cmp.Diff(map[string]string{"host/a": "responses", "host/b": "chat"}, got); err != nil || diff != "" {
		t.Errorf("Ways: %v, -want +got\n%s", err, diff)
	}
}
