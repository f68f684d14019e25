package usage

import (
	"context"
	"slices"
	"time"
)

// Auditor checks the database against itself and against the journal.
type Auditor interface {
	// AuditUsage adds up the settlements again. It returns where the stored sums disagree, and how
	// many pairs of account and day it compared.
	AuditUsage(ctx context.Context) (differences []Difference, compared int, err error)
	// HasSettlements returns the ids of those settlements in list that are stored.
	HasSettlements(ctx context.Context, list []Settlement) (map[string]bool, error)
	// SettlementsDropped returns the day before which settlements were deleted by DropSettlements.
	// It is the zero time if none were.
	SettlementsDropped(ctx context.Context) (time.Time, error)
}

// Audit checks that everything in the journal is in the database, and that the sums there agree
// with the settlements. It returns the differences and how many pairs of account and day it
// compared. It may run while calls are served.
func (b *Books) Audit(ctx context.Context) ([]Difference, int, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, 0, err
	}
	held, err := b.Held(time.Time{})
	if err != nil {
		return nil, 0, err
	}
	dropped, err := b.archive.SettlementsDropped(ctx)
	if err != nil {
		return nil, 0, err
	}
	// A segment of the journal may still hold what the database has deleted because of its age.
	held = slices.DeleteFunc(held, func(s Settlement) bool { return s.At.Before(dropped) })
	// held may include settlements recorded after the first flush. Without a second one they would
	// be reported as missing.
	if err := b.Flush(ctx); err != nil {
		return nil, 0, err
	}
	stored, err := b.archive.HasSettlements(ctx, held)
	if err != nil {
		return nil, 0, err
	}
	differences, compared, err := b.archive.AuditUsage(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i := range held {
		if !stored[held[i].ID] {
			d := Difference{AccountID: held[i].AccountID, Day: DayOf(held[i].At), What: "journal: " + held[i].ID + " is not in the database"}
			d.Rows.Add(&held[i])
			differences = append(differences, d)
		}
	}
	return differences, compared, nil
}
