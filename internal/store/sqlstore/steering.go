package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"sluice/internal/account"
	"sluice/internal/operate/steering"
)

// OrdersVersion returns the number of the last change of the orders.
func (s *Store) OrdersVersion(ctx context.Context) (version int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'steering'`).Scan(&version)
	return version, unavailable(err)
}

// Orders returns all orders, oldest first. The version is read before them: a change in between is then read twice and
// not missed.
func (s *Store) Orders(ctx context.Context) (orders []steering.Order, version int64, err error) {
	if version, err = s.OrdersVersion(ctx); err != nil {
		return nil, 0, err
	}
	orders, err = ordersOf(ctx, s.read)
	return orders, version, unavailable(err)
}

// ordersOf reads the orders.
func ordersOf(ctx context.Context, q querier) ([]steering.Order, error) {
	orders := []steering.Order{}
	err := each(ctx, q, func(rows *sql.Rows) error {
		var id, content string
		if err := rows.Scan(&id, &content); err != nil {
			return err
		}
		var o steering.Order
		if err := json.Unmarshal([]byte(content), &o); err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
		orders = append(orders, o)
		return nil
	}, `SELECT id, content FROM steering_orders ORDER BY at, id`)
	return orders, err
}

// ChangeOrders replaces the orders by those that change returns, and appends the audit entry. The lock on the counter's
// row keeps other changes out.
func (s *Store) ChangeOrders(ctx context.Context, change func(have []steering.Order) ([]steering.Order, account.Entry, error)) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'steering'`); err != nil {
			return err
		}
		had, err := ordersOf(ctx, tx)
		if err != nil {
			return err
		}
		next, entry, err := change(slices.Clone(had))
		if err != nil {
			return err
		}
		has := func(list []steering.Order, id string) bool {
			return slices.ContainsFunc(list, func(o steering.Order) bool { return o.ID == id })
		}
		for i := range had {
			if has(next, had[i].ID) {
				continue
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM steering_orders WHERE id = $1`, had[i].ID); err != nil {
				return err
			}
		}
		for i := range next { // an order never changes: there are only new ones
			if has(had, next[i].ID) {
				continue
			}
			content, err := json.Marshal(&next[i])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO steering_orders (id, kind, at, content) VALUES ($1, $2, $3, $4)`,
				next[i].ID, string(next[i].Kind), millis(next[i].At), string(content)); err != nil {
				return err
			}
		}
		return appendAudit(ctx, tx, entry)
	})
}
