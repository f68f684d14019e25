package service

import (
	"context"
	"time"

	"sluice/internal/store/sqlstore"
)

// Ways returns by which API models must be asked, by their addresses and names.
func (s *Store) Ways(ctx context.Context) (map[string]string, error) {
	return sqlstore.Map(s.db.Read(ctx), func(row sqlstore.Row, name, way *string) error { return row.Scan(name, way) },
		`SELECT name, way FROM upstream_ways`)
}

// AddWay stores by which API a model must be asked, over what was stored before.
func (s *Store) AddWay(ctx context.Context, name, way string, at time.Time) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		return tx.Exec(sqlstore.Upsert("upstream_ways", "name, way, at", "name", "way, at"), name, way, at)
	})
}
