package receipt

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// MostListed is how many receipts a page of a list has at most.
const MostListed = 500

// Archive is where receipts are stored.
type Archive interface {
	// Receipt returns the receipt of one of an account's calls; empty if there is none.
	Receipt(ctx context.Context, accountID, id string) (string, error)
	// Receipts returns at most most of an account's receipts of a time, oldest first, after a point.
	Receipts(ctx context.Context, accountID string, from, until time.Time, after Point, most int) ([]Stored, error)
	// ReceiptChains returns the ends of an account's chains in a month.
	ReceiptChains(ctx context.Context, accountID, month string) ([]Chain, error)
}

// Log is what the owner of an account reads of its receipts.
type Log struct {
	archive Archive
	flush   func(context.Context) // moves what is in the journal to the archive, if that does not take too long
	ring    *Ring
}

// NewLog returns the receipts of an archive.
func NewLog(archive Archive, flush func(context.Context), ring *Ring) *Log {
	return &Log{archive, flush, ring}
}

// Keys returns the public keys as a JWK set.
func (l *Log) Keys() []byte { return l.ring.Set() }

// prefixes are those of the ids that replies have; what follows is the id of the request.
var prefixes = []string{"chatcmpl-", "resp_", "msg_"}

// One returns the receipt of a call by the id of its request, or by that of its reply.
func (l *Log) One(ctx context.Context, accountID, id string) (string, error) {
	l.flush(ctx)
	bare := id
	for _, p := range prefixes {
		bare = strings.TrimPrefix(bare, p)
	}
	signed, err := l.archive.Receipt(ctx, accountID, bare)
	if err == nil && signed == "" {
		err = fault.New(fault.NotFound, "There is no receipt of %q. A call has one if it was made with the header x-sluice-receipt: 1, or while receipts were turned on for the account, and if it did not fail; it is kept as long as the call.", excerpt.Of(id, 100))
	}
	return signed, err
}

// Page is a part of a list of receipts.
type Page struct {
	Receipts []Stored
	Next     string // the cursor of the next page; empty: there is none
}

// List returns receipts that were issued from a time until before another, oldest first, after a cursor.
func (l *Log) List(ctx context.Context, accountID string, from, until time.Time, cursor string, most int) (Page, error) {
	after, err := pointOf(cursor)
	if err != nil {
		return Page{}, err
	}
	l.flush(ctx)
	list, err := l.archive.Receipts(ctx, accountID, from, until, after, most+1)
	if err != nil || len(list) <= most {
		return Page{Receipts: list}, err
	}
	last := list[most-1]
	return Page{list[:most], fmt.Sprintf("%d.%d.%s", last.At.UnixMilli(), last.N, last.ID)}, nil
}

// maxMillis is the end of the year 9999: no receipt is issued later.
const maxMillis = 253402300799999

// pointOf reads a cursor.
func pointOf(cursor string) (Point, error) {
	if cursor == "" {
		return Point{}, nil
	}
	parts := append(strings.SplitN(cursor, ".", 3), "", "")
	at, err := strconv.ParseInt(parts[0], 10, 64)
	n, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || err2 != nil || at < 0 || at > maxMillis || parts[2] == "" {
		return Point{}, fault.New(fault.Invalid, "cursor must be the value of next in an earlier reply; got %q.", excerpt.Of(cursor, 100)).At("cursor")
	}
	return Point{time.UnixMilli(at).UTC(), n, parts[2]}, nil
}

// Month is what the chains of an account come to in a month.
type Month struct {
	Month    string  `json:"month"`
	Root     string  `json:"root"`
	Receipts int64   `json:"receipts"`
	Final    bool    `json:"final"` // the month has been over for finalAfter; calls that had not ended by then count for the next one
	Chains   []Chain `json:"chains"`
}

// finalAfter is how long after the end of a month its root is final: every node that runs has stored what was in its journal.
const finalAfter = time.Hour

// Root returns the root of a month.
func (l *Log) Root(ctx context.Context, accountID, month string, now time.Time) (Month, error) {
	l.flush(ctx)
	chains, err := l.archive.ReceiptChains(ctx, accountID, month)
	if err != nil {
		return Month{}, err
	}
	m := Month{Month: month, Root: Root(chains), Final: month < MonthOf(now.Add(-finalAfter)), Chains: chains}
	if chains == nil {
		m.Chains = []Chain{}
	}
	for _, c := range chains {
		m.Receipts += c.N
	}
	return m, nil
}
