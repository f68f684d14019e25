package admin

import (
	"context"
	"time"
)

// ReceiptKeys are the keys that receipts of calls are signed with, oldest first.
type ReceiptKeys struct {
	Keys []ReceiptKey `json:"keys"`
}

// ReceiptKey is one of them, without its private half.
type ReceiptKey struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	SignsFrom time.Time `json:"signs_from"`
	// Status is "next", "signs", "retired", or "damaged": the private half cannot be read. All are published.
	Status string `json:"status"`
}

// receiptKeys lists the keys.
func (b *Backend) receiptKeys(ctx context.Context, _ Empty) (ReceiptKeys, error) {
	if err := b.Receipts.Open(ctx); err != nil {
		return ReceiptKeys{}, err
	}
	all, current := b.Receipts.All()
	out := ReceiptKeys{Keys: []ReceiptKey{}}
	status := "retired"
	for i := range all {
		k := ReceiptKey{ID: all[i].ID, CreatedAt: all[i].CreatedAt, SignsFrom: all[i].From, Status: status}
		switch {
		case k.ID == current:
			k.Status, status = "signs", "next"
		case all[i].Damaged:
			k.Status = "damaged"
		case all[i].Private == nil:
			k.Status = "retired"
		}
		out.Keys = append(out.Keys, k)
	}
	return out, nil
}

// receiptRotate makes a new key.
func (b *Backend) receiptRotate(ctx context.Context, _ Empty) (ReceiptKeys, error) {
	if _, err := b.Receipts.Rotate(ctx); err != nil {
		return ReceiptKeys{}, err
	}
	return b.receiptKeys(ctx, Empty{})
}
