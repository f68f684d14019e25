package calls

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// replayColumns are what the cost of a call follows from, in the order of parseReplay, as one text: each column that SQLite hands
// over costs more than its part of the text. Only the last may contain the separator.
const replayColumns = `account_id, key_id, plan, model, provider, ending, price_version, prompt, cached, completion, reasoning,
	cache_write_5m, cache_write_1h, cache_write, counted, cost_micro, cost_nano, margin_nano, details`

const (
	replayFields    = 19
	replaySeparator = "\x1f"
)

// replayQuery returns the query of a page of EachCall. Those of one account have an index of their own.
func replayQuery(accountID string) string {
	format := strings.Repeat("%s"+replaySeparator, replayFields-1) + "%s"
	query := `SELECT id, at, way, format('` + format + `', ` + replayColumns + `) FROM settlements WHERE at >= $1 AND (at > $1 OR id > $2) AND at < $3`
	if accountID != "" {
		query += ` AND account_id = $5`
	}
	return query + ` ORDER BY at, id LIMIT $4`
}

// correctionsQuery returns the query of the corrections of a page, by its first and last time.
func correctionsQuery(accountID string) string {
	query := `SELECT id, cost_nano, margin_nano, priced, new_version FROM price_corrections WHERE at >= $1 AND at <= $2`
	if accountID != "" {
		query += ` AND account_id = $3`
	}
	return query + ` ORDER BY at, id, number`
}

// replayPage is the number of calls that are read at once. No connection is held between two pages.
const replayPage = 2000

// EachCall calls each with the calls of a span, oldest first, until it returns an error. It reads pages, each in a query of its
// own, so it holds no transaction however long it takes. A call has what its cost follows from, with its corrections, and its
// trace; the rest of it is empty. each must not keep it.
func (s *Store) EachCall(ctx context.Context, span usage.Span, each func(*usage.Settlement) error) error {
	query := replayQuery(span.AccountID)
	at, id := span.From, ""
	var known names
	for {
		args := []any{at, id, span.To, replayPage}
		if span.AccountID != "" {
			args = append(args, span.AccountID)
		}
		page := make([]usage.Settlement, 0, replayPage)
		err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
			page = append(page, usage.Settlement{})
			return known.scan(row, &page[len(page)-1])
		}, query, args...)
		if err == nil && len(page) > 0 {
			err = s.correct(ctx, span.AccountID, page)
		}
		if err != nil {
			return err
		}
		for i := range page {
			if err := each(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < replayPage {
			return nil
		}
		at, id = page[len(page)-1].At, page[len(page)-1].ID
	}
}

// correct adds the corrections of calls, which are in the order of their time, to them. One query for all of them costs nothing
// for each that has none, as most have.
func (s *Store) correct(ctx context.Context, accountID string, page []usage.Settlement) error {
	type sum struct {
		usage.Corrected
		last string // version
	}
	var found map[string]*sum
	args := []any{page[0].At, page[len(page)-1].At}
	if accountID != "" {
		args = append(args, accountID)
	}
	err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var id string
		var c usage.Correction
		if err := row.Scan(&id, &c.Cost, &c.Margin, &c.Priced, &c.New); err != nil {
			return err
		}
		if found == nil {
			found = map[string]*sum{}
		}
		of := entry(found, id)
		of.Times, of.Cost, of.Margin, of.Priced, of.last = of.Times+1, of.Cost+c.Cost, of.Margin+c.Margin, of.Priced || c.Priced, c.New
		return nil
	}, correctionsQuery(accountID), args...)
	if len(found) == 0 {
		return err
	}
	for i := range page {
		if c := found[page[i].ID]; c != nil {
			page[i].Correct(c.Corrected, c.last)
		}
	}
	return err
}

// names has the texts of the last calls, so that those which many share are not allocated again.
type names map[string]string

// mostNames bounds them.
const mostNames = 10_000

// of returns a text that does not hold on to the row that it is a part of.
func (n *names) of(part string) string {
	if s, ok := (*n)[part]; ok {
		return s
	}
	if *n == nil || len(*n) >= mostNames {
		*n = names{}
	}
	s := strings.Clone(part)
	(*n)[s] = s
	return s
}

// scan reads a row of replayQuery.
func (n *names) scan(row sqlstore.Row, r *usage.Settlement) error {
	var (
		way    []byte
		rest   string
		fields [replayFields]string
	)
	if err := row.Scan(&r.ID, &r.At, &way, &rest); err != nil {
		return err
	}
	r.Trace, _ = usage.ParseTrace(way) // one of a newer version is left out
	for i := range fields[:replayFields-1] {
		fields[i], rest, _ = strings.Cut(rest, replaySeparator)
	}
	fields[replayFields-1] = rest
	return n.parse(&fields, r)
}

// parse reads the columns of replayColumns.
func (n *names) parse(fields *[replayFields]string, r *usage.Settlement) error {
	for i, to := range [...]*string{&r.AccountID, &r.KeyID, &r.Plan, &r.ModelUsed, &r.Provider, (*string)(&r.End), &r.Terms.Version} {
		*to = n.of(fields[i])
	}
	t := &r.Tokens
	for i, to := range [...]*int{&t.Prompt, &t.Cached, &t.Completion, &t.Reasoning, &t.CacheWrite5m, &t.CacheWrite1h, &t.CacheWrite} {
		n, err := strconv.Atoi(fields[7+i])
		if err != nil {
			return fmt.Errorf("read a call: %w", err)
		}
		*to = n
	}
	if details := fields[replayFields-1]; details != "" {
		r.SetDetails(strings.Clone(details))
	}
	r.Counted = fields[14] == "1"
	if fields[15] == "" {
		return nil // it has no cost
	}
	var cost [3]int64 // micro-dollars, the nano-dollars beyond them, the margin
	for i := range cost {
		n, err := strconv.ParseInt(fields[15+i], 10, 64)
		if err != nil {
			return fmt.Errorf("read a call: %w", err)
		}
		cost[i] = n
	}
	nano := usage.JoinCost(cost[0], cost[1])
	r.Cost, r.Margin = &nano, price.Nano(cost[2])
	return nil
}
