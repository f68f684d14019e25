package main

import (
	"testing"
	"time"

	"sluice/internal/store/sqlstore"
)

func TestProgressText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at    sqlstore.Progress
		taken time.Duration
		want  string
	}{
		{
			sqlstore.Progress{Table: "settlements", Rows: 2000, Of: 8000, AllRows: 5000, AllOf: 20_000},
			5 * time.Second, "  settlements: 2000 of 8000; all: 5000 of 20000, 1000 a second, 15s left",
		},
		{sqlstore.Progress{Table: "accounts", Of: 10, AllOf: 10}, 0, "  accounts: 0 of 10; all: 0 of 10, 0 a second"},
		{
			sqlstore.Progress{Table: "secrets", Rows: 3, Of: 2, AllRows: 11, AllOf: 10}, // the server has added one meanwhile
			time.Second, "  secrets: 3 of 2; all: 11 of 10, 11 a second",
		},
		{
			sqlstore.Progress{Table: "settlements", Number: 5, Tables: 38, Rows: 78_000, AllRows: 80_000}, // nobody has counted them
			40 * time.Second, "  settlements: 78000 rows; all: 80000 rows, 2000 a second, table 5 of 38",
		},
		{sqlstore.Progress{Table: "accounts", Rows: 10, AllRows: 10}, time.Second, "  accounts: 10 rows; all: 10 rows, 10 a second"},
	} {
		if got := progressText(tt.at, tt.taken); got != tt.want {
			t.Errorf("progressText(%+v, %v) = %q, want %q", tt.at, tt.taken, got, tt.want)
		}
	}
}
