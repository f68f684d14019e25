package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sluice/internal/account"
	"sluice/internal/operate/steering"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
)

// OrdersVersion returns the number of the last change of the orders.
func (s *Store) OrdersVersion(ctx context.Context) (int64, error) {
	return s.db.Read(ctx).Counter("steering")
}

// Orders returns all orders, oldest first. The version is read before them: a change in between is then read twice and
// not missed.
func (s *Store) Orders(ctx context.Context) (orders []steering.Order, version int64, err error) {
	if version, err = s.OrdersVersion(ctx); err != nil {
		return nil, 0, err
	}
	orders, err = ordersOf(s.db.Read(ctx))
	return orders, version, err
}

// AuditLog returns the latest entries about an account or, if it is empty, the service itself.
func (s *Store) AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]account.Entry, error) {
	return accounts.New(s.db).AuditLog(ctx, accountID, before, limit)
}

// ordersOf reads the orders.
func ordersOf(c *sqlstore.Conn) ([]steering.Order, error) {
	orders, err := sqlstore.All(c, func(row sqlstore.Row, o *steering.Order) error {
		var id, content string
		if err := row.Scan(&id, &content); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(content), o); err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
		return nil
	}, `SELECT id, content FROM steering_orders ORDER BY at, id`)
	if orders == nil {
		orders = []steering.Order{}
	}
	return orders, err
}

// ChangeOrders replaces the orders by those that change returns, and appends the audit entry. The lock on the counter's
// row keeps other changes out.
func (s *Store) ChangeOrders(ctx context.Context, change func(have []steering.Order) ([]steering.Order, account.Entry, error)) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Next("steering")
		had, err := ordersOf(tx)
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
			if !has(next, had[i].ID) {
				tx.Do(`DELETE FROM steering_orders WHERE id = $1`, had[i].ID)
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
			tx.Do(`INSERT INTO steering_orders (id, kind, at, content) VALUES ($1, $2, $3, $4)`,
				next[i].ID, string(next[i].Kind), next[i].At, string(content))
		}
		return accounts.Audit(tx, entry)
	})
}
