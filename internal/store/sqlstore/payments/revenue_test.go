package payments

import (
	"strings"
	"testing"

	"sluice/internal/store/sqlstore"
)

// The revenue of a page is answered from an index. PostgreSQL reads a table that is almost empty as a whole.
func TestRevenueUsesAnIndex(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.Open(t.Context(), "sqlite", t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var plan strings.Builder
	err = db.Read(t.Context()).Each(func(row sqlstore.Row) error {
		var id, parent, unused int
		var line string
		err := row.Scan(&id, &parent, &unused, &line)
		plan.WriteString(line + "\n")
		return err
	}, `EXPLAIN QUERY PLAN `+revenueQuery, 1)
	if err != nil || strings.Contains(plan.String(), "SCAN ") || !strings.Contains(plan.String(), "INDEX") {
		t.Errorf("%s is answered by\n%s, %v", revenueQuery, plan.String(), err)
	}
}
