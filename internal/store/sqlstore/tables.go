package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// copied are the tables that a Transfer copies, in its order. A migration that adds a table adds a line
// here or to notCopied; a test compares both lists with the database.
// The order is part of the format of backups: a manifest lists the tables in it, and is compared entry
// by entry.
var copied = [...]string{
	"accounts", "api_keys", "logins", "recovery_codes", "passkeys", "sessions", "one_time_links", "staff_tokens", "notices", "matters", "matter_messages",
	"billing_accounts", "billing_details", "billing_payments", "billing_ledger", "billing_events", "testpay_objects",
	"abuse_counts", "abuse_events", "audit_log",
	"catalog_models", "catalog_revisions", "catalog_changes", "price_versions", "price_imports", "steering_orders", "incidents",
	"idempotent_replies", "idempotent_sizes", "continuations", "continuation_sizes", "responses", "response_sizes",
	"video_jobs", "video_turns", "alert_endpoints", "alert_events", "alert_deliveries",
	"refused_calls", "refused_minutes", "health_days", "router_feedback", "router_votes", "upstream_ways", "reconciliations",
	"receipts", "receipt_chains", "receipt_keys",
	"budget_counts", "budget_spent", "budget_grants", "budget_marks", "runaway_alarms",
	"session_sums", "tag_days", "shares", "share_sizes",
	"usage_days", "usage_hours", "provider_days", "activity", "settlements", "price_corrections",
	"counters", "secrets",
}

// notCopied are the tables that belong to one database: the versions of its tables, its part in a Transfer, the
// servers that run on it, and what they must know of each other for a short time, which is empty with SQLite.
var notCopied = [...]string{
	"goose_db_version", "transfers", "cluster_nodes", "cluster_lists", "cluster_jobs",
	"idempotent_claims", "signin_tries", "conversation_models", "overview_minutes", "alert_conditions", "response_marks",
}

// table is one table as both sides of a Transfer have it.
type table struct {
	name    string
	columns []string
	kinds   []kind // of the columns
	key     []int  // the places of the primary key in columns
	// unique reports that the table has a unique index beside the primary key, so the order in which
	// rows are deleted and inserted matters.
	unique bool
}

// kind is how a column is stored.
type kind int

const (
	// The three kinds of columns that the migrations use; numbers are integers.
	textKind kind = iota
	bytesKind
	numberKind
)

// Strangers returns the tables that a Transfer does not know. Copying without them would lose data.
func (s *Store) Strangers(ctx context.Context) ([]string, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	if s.engine == Postgres {
		query = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`
	}
	all, err := All(s.Read(ctx), Column[string], query)
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(copied[:], name) || slices.Contains(notCopied[:], name) }), err
}

// kinds has the kind of each type of a column, by the name that the migrations and PostgreSQL give it.
var kinds = map[string]kind{"text": textKind, "bytea": bytesKind, "bigint": numberKind, "integer": numberKind}

// columns describes a table. Only SQLite says what is in the key.
func (s *Store) columns(ctx context.Context, name string) (*table, error) {
	query := `SELECT name, type, pk FROM pragma_table_info($1) ORDER BY cid`
	if s.engine == Postgres {
		query = `SELECT column_name, data_type, 0 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1`
	}
	t, places := &table{name: name}, map[int]int{} // by their number in the key
	err := s.Read(ctx).Each(func(row Row) error {
		var column, named string
		var inKey int
		if err := row.Scan(&column, &named, &inKey); err != nil {
			return err
		}
		kind, known := kinds[strings.ToLower(named)]
		if !known {
			return fmt.Errorf("column %s has the type %s, which cannot be copied", column, named)
		}
		if inKey > 0 {
			places[inKey] = len(t.columns)
		}
		t.columns, t.kinds = append(t.columns, column), append(t.kinds, kind)
		return nil
	}, query, name)
	for i := range len(places) {
		t.key = append(t.key, places[i+1])
	}
	return t, err
}

// describe reads what a Transfer must know of a table. The source says what the key is, and the target,
// which is stricter, of which kind the columns are.
//
// Both must have the same columns. The order is the source's, because the statements name the
// columns.
func describe(ctx context.Context, from, to *Store, name string) (*table, error) {
	t, err := from.columns(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	other, err := to.columns(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	for i, column := range t.columns {
		at := slices.Index(other.columns, column)
		if at < 0 {
			return nil, fmt.Errorf("table %s: there is no column %s in PostgreSQL", name, column)
		}
		t.kinds[i] = other.kinds[at]
	}
	if len(t.columns) != len(other.columns) || len(t.key) == 0 {
		return nil, fmt.Errorf("table %s is not the same in SQLite and PostgreSQL", name)
	}
	t.unique, err = Value[bool](from.Read(ctx), `SELECT EXISTS (SELECT 1 FROM pragma_index_list($1) WHERE "unique" = 1 AND origin <> 'pk')`, name)
	return t, err
}

// selectAll returns the statement that reads the table, in the order of its key if ordered. PostgreSQL
// orders text by language unless it is told to compare bytes, as SQLite does.
func (t *table) selectAll(engine Engine, ordered bool) string {
	query := `SELECT ` + strings.Join(t.columns, ", ") + ` FROM ` + t.name
	if !ordered {
		return query
	}
	keys := make([]string, len(t.key))
	for i, k := range t.key {
		keys[i] = t.columns[k]
		if engine == Postgres && t.kinds[k] == textKind {
			keys[i] += ` COLLATE "C"`
		}
	}
	return query + ` ORDER BY ` + strings.Join(keys, ", ")
}

// deleteOne returns the statement that deletes the row with a key.
func (t *table) deleteOne() string {
	terms := make([]string, len(t.key))
	for i, k := range t.key {
		terms[i] = fmt.Sprintf("%s = $%d", t.columns[k], i+1)
	}
	return `DELETE FROM ` + t.name + ` WHERE ` + strings.Join(terms, " AND ")
}

// Count returns how many rows the table has.
func (s *Store) Count(ctx context.Context, name string) (n int64, err error) {
	err = s.Long(ctx, func(ctx context.Context) error {
		n, err = Value[int64](s.Read(ctx), `SELECT COUNT(*) FROM `+name)
		return err
	})
	return n, err
}
