package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sluice/internal/ledger/usage"
)

// RoutedCalls adds up an account's calls since a time that asked for the given model and were answered by others, by
// the model that answered, most calls first.
func (s *Store) RoutedCalls(ctx context.Context, accountID, asked string, from time.Time) ([]usage.Routed, error) {
	var out []usage.Routed
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var r usage.Routed
		if err := rows.Scan(&r.Model, &r.Calls, &r.Unpriced, &r.Priced, &r.Prompt, &r.Cached, &r.Completion, &r.CostMicro); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	}, `SELECT model, COUNT(*), COALESCE(SUM(CASE WHEN cost_micro IS NULL AND prompt + completion > 0 THEN 1 ELSE 0 END), 0), COUNT(cost_micro), COALESCE(SUM(CASE WHEN cost_micro IS NULL THEN 0 ELSE prompt END), 0),
			COALESCE(SUM(CASE WHEN cost_micro IS NULL THEN 0 ELSE cached END), 0), COALESCE(SUM(CASE WHEN cost_micro IS NULL THEN 0 ELSE completion END), 0),
			COALESCE(SUM(cost_micro), 0)
		FROM settlements WHERE account_id = $1 AND at >= $2 AND model_asked <> model AND model_asked = $3
		GROUP BY model ORDER BY COUNT(*) DESC, model`, accountID, millis(from), asked)
	return out, unavailable(err)
}
