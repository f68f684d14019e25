package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
)

// The counters with the numbers of the last version and of the last imported entry.
const (
	lastVersion = "price_versions"
	lastImport  = "price_imports"
)

const versionColumns = `version, number, origin, seen_at, entry`

// RecordPrices stores the entries of a book that are not stored yet.
func (s *Store) RecordPrices(ctx context.Context, entries []*price.Entry, at time.Time) error {
	known, err := sqlstore.All(s.db.Read(ctx), sqlstore.Column[string], `SELECT version FROM price_versions`)
	if err != nil {
		return err
	}
	var fresh []*price.Entry
	for _, e := range entries {
		if !slices.Contains(known, e.Version()) {
			known, fresh = append(known, e.Version()), append(fresh, e)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		for _, e := range fresh {
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			// Another node may be doing the same.
			tx.Do(sqlstore.Insert("price_versions", versionColumns)+` ON CONFLICT (version) DO NOTHING`, e.Version(), tx.Next(lastVersion), e.Origin.String(), at, string(raw))
		}
		return nil
	})
}

// PriceVersion returns the entry with a version, or nil if this installation never had it.
func (s *Store) PriceVersion(ctx context.Context, version string) (*price.Seen, error) {
	return sqlstore.One(s.db.Read(ctx), scanSeen, `SELECT `+versionColumns+` FROM price_versions WHERE version = $1`, version)
}

// PriceVersions returns up to most entries that are or were in force, the latest first, before the one with a number; 0: from the
// latest on.
func (s *Store) PriceVersions(ctx context.Context, before int64, most int) ([]price.Seen, error) {
	return sqlstore.All(s.db.Read(ctx), scanSeen,
		`SELECT `+versionColumns+` FROM price_versions WHERE number < $1 OR $1 = 0 ORDER BY number DESC LIMIT $2`, before, most)
}

func scanSeen(row sqlstore.Row, s *price.Seen) error {
	var entry string
	if err := row.Scan(&s.Version, &s.Number, &s.Origin, &s.At, &entry); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(entry), &s.Entry); err != nil {
		return fmt.Errorf("price %s: %w", s.Version, err)
	}
	return nil
}

// ImportsVersion returns the number of the last imported entry.
func (s *Store) ImportsVersion(ctx context.Context) (int64, error) {
	return s.db.Read(ctx).Counter(lastImport)
}

// Imports returns all imported entries, the earliest first.
func (s *Store) Imports(ctx context.Context) ([]price.Taken, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, t *price.Taken) error {
		var entry string
		if err := row.Scan(&t.Number, &t.At, &t.By, &t.Format, &entry); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(entry), &t.Entry); err != nil {
			return fmt.Errorf("imported price %d: %w", t.Number, err)
		}
		t.Entry.Origin = price.FromImport
		return nil
	}, `SELECT number, at, actor, format, entry FROM price_imports ORDER BY number`)
}

// Import stores entries that somebody has imported, in their order, and appends an entry to the audit log.
func (s *Store) Import(ctx context.Context, by, format string, at time.Time, entries []*price.Entry) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		number, err := tx.Hold(lastImport)
		if err != nil {
			return err
		}
		if number+int64(len(entries)) > price.MaxTaken {
			return fault.New(fault.Conflict, "%d prices have been imported, and %d is the limit; write the ones you need under prices in the configuration", number, price.MaxTaken)
		}
		for _, e := range entries {
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			number++
			tx.Do(sqlstore.Insert("price_imports", "number, at, actor, format, entry"), number, at, by, format, string(raw))
		}
		if err := tx.SetCounter(lastImport, number); err != nil {
			return err
		}
		return accounts.Audit(tx, account.Entry{At: at, Actor: by, Action: "prices.import", Detail: fmt.Sprintf("%d prices of a list in the format %s", len(entries), format)})
	})
}
