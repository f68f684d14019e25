package activity

import (
	"context"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

// Entry is one call: settled or refused. Exactly one of the fields is set.
type Entry struct {
	Call    *usage.Settlement
	Refused *refusal.Call
}

// At returns when the call began.
func (e *Entry) At() time.Time {
	if e.Call != nil {
		return e.Call.At
	}
	return e.Refused.At
}

// ID returns our own id of the call.
func (e *Entry) ID() string {
	if e.Call != nil {
		return e.Call.ID
	}
	return e.Refused.ID
}

// Page is a part of a list of calls, newest first.
type Page struct {
	Entries []Entry
	// Next is the cursor of the next part; empty if this is the last. A part may have few entries, or none, and not be
	// the last: only a limited number of calls is looked at for each.
	Next string
	// Back is how far the calls were looked at if Next is set.
	Back time.Time
}

const (
	// MaxEntries is how many entries a page has at most.
	MaxEntries = 200
	// maxID is the length of an id at most, in bytes.
	maxID = 128
)

// cursor is a position in a list: the entries after it are before this time, or at this time with a smaller id.
type cursor usage.Point

// String returns the cursor as callers get it in next.
func (c cursor) String() string { return usage.Point(c).String() }

// before reports whether a call comes after the cursor in the list, which is before it in time.
func (c cursor) before(at time.Time, id string) bool {
	return at.Before(c.At) || at.Equal(c.At) && id < c.ID
}

// parseCursor reads a cursor that a page had as Next.
func parseCursor(text string) (cursor, error) {
	at, ok := usage.ParsePoint(text)
	if !ok {
		return cursor{}, fault.New(fault.Invalid, "cursor must be the value of next in the previous reply.").At("cursor")
	}
	return cursor(at), nil
}

// Requests returns calls from the cursor on, at most limit of them. The list begins with an empty cursor.
func (l *Log) Requests(ctx context.Context, q Query, from string, limit int) (Page, error) {
	at := cursor{At: q.end().UTC()}
	if from != "" {
		var err error
		if at, err = parseCursor(from); err != nil {
			return Page{}, err
		}
	} else {
		l.flush(ctx)
	}
	limit = max(1, min(limit, MaxEntries))
	settled, err := l.settled(ctx, q, at, limit)
	if err != nil {
		return Page{}, err
	}
	refused, next, err := l.refused(ctx, q, at, limit)
	if err != nil {
		return Page{}, err
	}
	return merge(settled, refused, next, limit), nil
}

// InSession returns calls of a session that has lasted from one time to another, newest first: at most limit of those that are among
// the last calls of the account until then. Sessions have no index; more reports whether earlier calls were not looked at.
func (l *Log) InSession(ctx context.Context, accountID, session string, from, until time.Time, limit int) (calls []usage.Settlement, more bool, err error) {
	page, err := l.store.Calls(ctx, usage.CallQuery{
		AccountID: accountID, Before: usage.Point{At: until.Add(time.Millisecond)}, From: from, Limit: firstLook, Look: firstLook,
	})
	if err != nil {
		return nil, false, err
	}
	for i := range page.Calls {
		if page.Calls[i].Session() != session {
			continue
		}
		if len(calls) == limit {
			return calls, true, nil
		}
		calls = append(calls, page.Calls[i])
	}
	return calls, page.Next != nil, nil
}

// settled returns at most limit settled calls from the cursor on. If the last ones are none of those that are wanted, it
// continues where the counts say that there are some.
func (l *Log) settled(ctx context.Context, q Query, at cursor, limit int) (usage.CallPage, error) {
	if q.Outcome == Refused {
		return usage.CallPage{}, nil
	}
	ask := usage.CallQuery{AccountID: q.AccountID, Before: usage.Point(at), From: q.Range.From(q.Now), Narrow: q.narrow(), Limit: limit, Look: firstLook}
	page, err := l.sift(ctx, &q, ask)
	if err != nil || len(page.Calls) > 0 || page.Next == nil {
		return page, err
	}
	// Hours are kept for a week. What is older is found step by step.
	from := ask.From
	if kept := q.Now.Add(-usage.KeepHours + time.Hour); kept.After(from) {
		from = kept
	}
	ask.Before, ask.Look = *page.Next, maxLook
	if from.Before(page.Next.At) {
		cells, err := l.store.Cells(ctx, usage.CellQuery{AccountID: q.AccountID, From: usage.HourOf(from), Step: time.Hour, Narrow: ask.Narrow})
		if err != nil {
			return usage.CallPage{}, err
		}
		newest := from
		for i := range cells {
			if s := cells[i].Start; s.After(newest) && !s.After(page.Next.At) {
				newest = s
			}
		}
		if end := newest.Add(time.Hour); end.Before(ask.Before.At) {
			ask.Before = usage.Point{At: end}
		}
	}
	return l.sift(ctx, &q, ask)
}

// sift reads calls. Those of a session or with a tag are picked here from what the store has read, part by part.
func (l *Log) sift(ctx context.Context, q *Query, ask usage.CallQuery) (out usage.CallPage, err error) {
	if !q.sifts() {
		return l.store.Calls(ctx, ask)
	}
	limit, look := ask.Limit, ask.Look
	for look > 0 {
		ask.Look = min(look, firstLook)
		ask.Limit = ask.Look
		page, err := l.store.Calls(ctx, ask)
		if err != nil {
			return usage.CallPage{}, err
		}
		for i := range page.Calls {
			c := &page.Calls[i]
			if !q.has(c) {
				continue
			}
			if out.Calls = append(out.Calls, *c); len(out.Calls) == limit {
				out.Next = &usage.Point{At: c.At, ID: c.ID}
				return out, nil
			}
		}
		if out.Next = page.Next; out.Next == nil {
			break
		}
		ask.Before = *out.Next
		look -= ask.Look
	}
	return out, nil
}

const (
	// tailBack is how long before a moment a call may have begun that ended after it and is still found.
	tailBack = 10 * time.Minute
	// tailMost is how many calls are read at most for that.
	tailMost = 200
)

// Ended returns calls that ended from a moment on, newest first, at most limit of them, and whether there may be more. It looks at a
// bounded number of calls, so that a page can ask every few seconds. Calls of other nodes and refused ones come a few seconds late:
// who follows them asks for a little more than is new, and knows by its id what came before.
func (l *Log) Ended(ctx context.Context, q Query, since time.Time, limit int) (_ []Entry, more bool, err error) {
	l.flush(ctx)
	at := cursor{At: q.end().UTC()}
	from := q.Range.From(q.Now)
	if back := since.Add(-tailBack); back.After(from) {
		from = back
	}
	var settled usage.CallPage
	if q.Outcome != Refused {
		page, err := l.sift(ctx, &q, usage.CallQuery{AccountID: q.AccountID, Before: usage.Point(at), From: from, Narrow: q.narrow(), Limit: tailMost, Look: maxRead})
		if err != nil {
			return nil, false, err
		}
		more = page.Next != nil
		for i := range page.Calls {
			if c := &page.Calls[i]; !c.At.Add(c.Latency).Before(since) {
				settled.Calls = append(settled.Calls, *c)
			}
		}
	}
	var refused []refusal.Call
	if q.refused() {
		list, err := l.refusals.Refusals(ctx, q.AccountID, refusal.Point(at), tailMost)
		if err != nil {
			return nil, false, err
		}
		for i := range list {
			if !list[i].At.Before(since) && q.wants(&list[i]) {
				refused = append(refused, list[i])
			}
		}
		more = more || len(list) == tailMost && !list[tailMost-1].At.Before(since)
	}
	return merge(settled, refused, nil, limit).Entries, more || len(settled.Calls)+len(refused) > limit, nil
}

// refused returns at most limit refused calls from the cursor on, and where they continue; nil if there are no more.
// There are never more than refusal.Kept.
func (l *Log) refused(ctx context.Context, q Query, at cursor, limit int) (out []refusal.Call, next *cursor, err error) {
	if !q.refused() {
		return nil, nil, nil
	}
	read := limit
	if q.Model != "" || q.KeyID != "" {
		read = refusal.Kept
	}
	list, err := l.refusals.Refusals(ctx, q.AccountID, refusal.Point(at), read)
	if err != nil {
		return nil, nil, err
	}
	from := q.Range.From(q.Now)
	for i := range list {
		if list[i].At.Before(from) {
			return out, nil, nil
		}
		if len(out) == limit {
			last := &out[limit-1]
			return out, &cursor{last.At, last.ID}, nil
		}
		if q.wants(&list[i]) {
			out = append(out, list[i])
		}
	}
	if len(list) == read && read == limit {
		last := &list[read-1]
		next = &cursor{last.At, last.ID}
	}
	return out, next, nil
}

// merge puts both lists in order, up to where either of them is known. A call that an upstream refused is in both lists,
// and shown as settled.
func merge(settled usage.CallPage, refused []refusal.Call, refusedNext *cursor, limit int) (p Page) {
	// What is beyond the horizon may have neighbours that were not read.
	horizon := (*cursor)(settled.Next)
	if refusedNext != nil && (horizon == nil || refusedNext.before(horizon.At, horizon.ID)) {
		horizon = refusedNext
	}
	seen := map[string]bool{}
	calls := settled.Calls
	for len(p.Entries) < limit && (len(calls) > 0 || len(refused) > 0) {
		var e Entry
		if len(refused) == 0 || len(calls) > 0 && !newer(&refused[0], &calls[0]) {
			e.Call, calls = &calls[0], calls[1:]
		} else {
			e.Refused, refused = &refused[0], refused[1:]
		}
		if horizon != nil && horizon.before(e.At(), e.ID()) {
			break
		}
		if seen[e.ID()] {
			continue
		}
		seen[e.ID()] = true
		p.Entries = append(p.Entries, e)
	}
	switch {
	case len(p.Entries) == limit && (horizon != nil || len(calls) > 0 || len(refused) > 0):
		last := &p.Entries[limit-1]
		p.Next, p.Back = cursor{last.At(), last.ID()}.String(), last.At()
	case horizon != nil:
		p.Next, p.Back = horizon.String(), horizon.At
	}
	return p
}

// newer reports whether a refused call comes before a settled one in the list.
func newer(r *refusal.Call, s *usage.Settlement) bool {
	return r.At.After(s.At) || r.At.Equal(s.At) && r.ID > s.ID
}
