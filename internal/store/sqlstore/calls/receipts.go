package calls

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

var (
	intoReceipts = sqlstore.Insertion{Into: `receipts (id, account_id, at, month, chain, n, signed)`, Columns: 7, Conflict: `ON CONFLICT (id) DO NOTHING`}
	// Batches may come in another order after a crash: an end never moves back.
	intoChains = sqlstore.Insertion{
		Into: `receipt_chains (account_id, month, chain, n, head)`, Columns: 5,
		Conflict: `ON CONFLICT (account_id, month, chain) DO UPDATE SET n = excluded.n, head = excluded.head WHERE receipt_chains.n < excluded.n`,
	}
)

// chainKey is a chain of an account in a month.
type chainKey struct{ account, month, chain string }

// addReceipts stores the receipts of settlements, which are signed, and the ends of their chains.
func addReceipts(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	var with []*usage.Settlement
	ends := map[chainKey]*usage.Receipt{}
	for i := range batch {
		r := batch[i].Receipt
		if r == nil {
			continue
		}
		with = append(with, &batch[i])
		key := chainKey{batch[i].AccountID, r.Month, r.Chain}
		if end := ends[key]; end == nil || end.N < r.N {
			ends[key] = r
		}
	}
	if len(with) == 0 {
		return nil
	}
	_, err := to.Insert(ctx, &intoReceipts, len(with), func(values []any, i int) []any {
		s, r := with[i], with[i].Receipt
		return append(values, s.ID, s.AccountID, sqlstore.Millis(r.IssuedAt), r.Month, r.Chain, r.N, r.Signed)
	})
	if err != nil {
		return err
	}
	list := slices.SortedFunc(maps.Keys(ends), func(a, b chainKey) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.month, b.month), strings.Compare(a.chain, b.chain))
	})
	_, err = to.Insert(ctx, &intoChains, len(list), func(values []any, i int) []any {
		k, end := list[i], ends[list[i]]
		return append(values, k.account, k.month, k.chain, end.N, end.Hash)
	})
	return err
}

// Receipt returns the receipt of one of an account's calls; empty if there is none.
func (s *Store) Receipt(ctx context.Context, accountID, id string) (string, error) {
	return sqlstore.Optional[string](s.db.Read(ctx), `SELECT signed FROM receipts WHERE id = $1 AND account_id = $2`, id, accountID)
}

// Receipts returns at most most of an account's receipts of a time, oldest first, after a point. Those of a chain are in its
// order, because a second has many.
func (s *Store) Receipts(ctx context.Context, accountID string, from, until time.Time, after receipt.Point, most int) ([]receipt.Stored, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *receipt.Stored) error { return row.Scan(&r.ID, &r.At, &r.N, &r.Signed) },
		`SELECT id, at, n, signed FROM receipts WHERE account_id = $1 AND at >= $2 AND at < $3 AND (at > $4 OR at = $4 AND (n > $5 OR n = $5 AND id > $6)) ORDER BY at, n, id LIMIT $7`,
		accountID, from, until, sqlstore.Millis(after.At), after.N, after.ID, most)
}

// ReceiptChains returns the ends of the chains of an account in a month.
func (s *Store) ReceiptChains(ctx context.Context, accountID, month string) ([]receipt.Chain, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *receipt.Chain) error { return row.Scan(&c.Chain, &c.N, &c.Hash) },
		`SELECT chain, n, head FROM receipt_chains WHERE account_id = $1 AND month = $2 ORDER BY chain`, accountID, month)
}

// keyPurpose is what the private halves of keys are sealed for.
const keyPurpose = "receipt key"

// errLocked means that receipts have to be signed, and the secret of the installation is not known. A key is never stored in the
// clear.
var errLocked = errors.New("the keys of receipts are encrypted with the secret of the installation, which is not known here; set SLUICE_SECRET, or name the data folder that has its secret.key")

// ReceiptKeys returns all keys that receipts were or are signed with, oldest first.
func (s *Store) ReceiptKeys(ctx context.Context) ([]receipt.Key, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, k *receipt.Key) error {
		var sealed string
		var public []byte
		if err := row.Scan(&k.ID, &public, &sealed, &k.CreatedAt, &k.From); err != nil {
			return err
		}
		if k.Public = public; sealed == "" {
			return nil
		}
		if s.db.Key().IsZero() {
			return errLocked
		}
		seed, err := s.db.UnsealText(keyPurpose, k.ID, sealed)
		raw, notHex := hex.DecodeString(seed)
		if err != nil || notHex != nil || len(raw) != ed25519.SeedSize {
			k.Damaged = true // another key signs; calls must not stop for this
			return nil
		}
		k.Private = ed25519.NewKeyFromSeed(raw)
		k.Public = k.Private.Public().(ed25519.PublicKey)
		return nil
	}, `SELECT id, public, private, created_at, signs_at FROM receipt_keys ORDER BY signs_at, id`)
}

// AddReceiptKey stores a key, and deletes the private halves of retired ones. If first is set, it does nothing if there is a key.
func (s *Store) AddReceiptKey(ctx context.Context, k receipt.Key, first bool, retired []string) error {
	if s.db.Key().IsZero() {
		return errLocked
	}
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// The counter's row is a lock, so that two nodes do not both add the first key.
		if _, err := tx.Hold("receipt_keys"); err != nil {
			return err
		}
		if first {
			n, err := sqlstore.Value[int64](tx, `SELECT COUNT(*) FROM receipt_keys`)
			if err != nil || n > 0 {
				return err
			}
		}
		for _, id := range retired {
			tx.Do(`UPDATE receipt_keys SET private = '' WHERE id = $1`, id)
		}
		return tx.Exec(sqlstore.Insert("receipt_keys", "id, public, private, created_at, signs_at"),
			k.ID, []byte(k.Public), s.db.SealText(keyPurpose, k.ID, hex.EncodeToString(k.Private.Seed())), k.CreatedAt, k.From)
	})
}
