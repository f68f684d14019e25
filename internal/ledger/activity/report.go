package activity

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

// MaxSeries is how many groups a report has at most. The others are added up in one, whose Group is Others.
const MaxSeries = 8

// Others and NoStatus are groups that have no name of their own: those beyond MaxSeries, and calls whose caller left
// before there was a status.
const (
	Others   = "other"
	NoStatus = "none"
)

// Report is the activity of an account over a range.
type Report struct {
	Range Range
	From  time.Time
	Step  time.Duration // may be longer than that of the range if there are many calls
	// Since is set if there were too many calls to read all of them: only those since then are counted.
	Since time.Time
	By    By

	Total usage.Tally
	Times Times
	Steps []Step
	// Series are the groups, the largest first.
	Series []Series
	// Models and Keys are the totals of each, the most used first.
	Models, Keys []Row
	// Asked are the models that were asked for, in the order of their names.
	Asked []string
	// Refused counts refused calls, which are in no tally. RefusedSince is set if those before are not counted.
	Refused      int64
	RefusedSince time.Time
}

// Step is one step of time.
type Step struct {
	Start time.Time
	usage.Tally
	Times   Times
	Refused int64
}

// Series is the calls of one group, by step.
type Series struct {
	Group string
	// Refused says that these are refused calls, of which only Calls is known.
	Refused bool
	Total   usage.Tally
	Steps   []usage.Tally
}

// Row is the calls of one model or key.
type Row struct {
	Name string
	usage.Tally
	Errors int64 // failed or cut off
}

// Times are percentiles in milliseconds.
type Times struct {
	Known              bool // there were calls to measure
	P50, P95           int64
	FirstKnown         bool
	FirstP50, FirstP95 int64
}

// durations are those of single calls.
type durations struct{ took, first []int64 }

// add adds the durations of a call. Calls that produced nothing would make a model look faster than it is.
func (d *durations) add(s *usage.Settlement) {
	if s.Produced() {
		d.took = append(d.took, s.Latency.Milliseconds())
	}
	if s.HasFirst() {
		d.first = append(d.first, s.FirstToken.Milliseconds())
	}
}

// times returns the percentiles of a tally. They are exact if all its calls are known singly.
func times(t *usage.Tally, d *durations) (out Times) {
	out.P50, out.P95, out.Known = percentiles(&t.Took, d.took)
	out.FirstP50, out.FirstP95, out.FirstKnown = percentiles(&t.First, d.first)
	return out
}

// percentiles returns those of single calls if exact has all of them, which it sorts, and otherwise those of the classes
// that the calls were counted in. known is false without any call.
func percentiles(s *usage.Spread, exact []int64) (p50, p95 int64, known bool) {
	if n := int64(len(exact)); n > 0 && n == s.Calls() {
		slices.Sort(exact)
		return exact[(n*50+99)/100-1], exact[(n*95+99)/100-1], true
	}
	p50, known = s.Percentile(50)
	p95, _ = s.Percentile(95)
	return p50, p95, known
}

// Report adds up the calls of a range by step and group.
func (l *Log) Report(ctx context.Context, q Query, by By) (*Report, error) {
	l.flush(ctx)
	r := &Report{Range: q.Range, From: q.Range.From(q.Now), Step: q.Range.Step, By: by}
	n := q.Range.N
	var cells []usage.Cell
	var calls []usage.Settlement
	var err error
	switch {
	case q.Outcome == Refused:
	case q.sifts() || r.Step == time.Minute:
		if calls, r.Since, err = l.newest(ctx, q, r.From); err != nil {
			return nil, err
		}
	default:
		if n, cells, calls, err = l.count(ctx, q, r, n); err != nil {
			return nil, err
		}
	}
	if cells == nil {
		cells = make([]usage.Cell, len(calls))
		for i := range calls {
			cells[i] = usage.Cell{Start: calls[i].At.Truncate(r.Step), Kind: usage.KindOf(&calls[i])}
			cells[i].Add(&calls[i])
		}
	}
	r.Steps = make([]Step, n)
	for i := range r.Steps {
		r.Steps[i].Start = r.From.Add(time.Duration(i) * r.Step)
	}
	r.addUp(cells, calls)
	return r, l.addRefused(ctx, q, r)
}

// Earlier returns the report of the period before that of a query, to compare it with; nil if not all of that period is kept.
func (l *Log) Earlier(ctx context.Context, q Query, by By) (*Report, error) {
	q.Range = q.Range.Before(q.Now)
	from := q.Range.From(q.Now)
	if q.Range.Step > time.Minute && !q.sifts() {
		step := time.Hour
		if q.Range.Step >= day {
			step = day
		}
		since, err := l.store.CellsSince(ctx, q.AccountID, step)
		if err != nil || since.IsZero() || since.After(from) {
			return nil, err
		}
	}
	r, err := l.Report(ctx, q, by)
	if err != nil || !r.Since.IsZero() {
		return nil, err
	}
	return r, nil
}

// newest returns the newest calls since a time, and from when on if those are not all.
func (l *Log) newest(ctx context.Context, q Query, from time.Time) (calls []usage.Settlement, since time.Time, err error) {
	page, err := l.read(ctx, q, from, maxRead)
	if err == nil && page.Next != nil {
		since = page.Next.At
	}
	return page.Calls, since, err
}

// count returns the cells of a range whose steps the store counts, and the number of its steps, which may be longer than asked for.
// It returns the calls as well if there are few.
func (l *Log) count(ctx context.Context, q Query, r *Report, n int) (_ int, cells []usage.Cell, calls []usage.Settlement, err error) {
	last := q.Range.last(q.Now).Add(q.Range.Step - 1) // in the last step
	// byDay draws whole days.
	byDay := func() {
		first := usage.DayOf(r.From)
		n, r.Step, r.From = int(usage.DayOf(last).Sub(first)/day)+1, day, first
	}
	// Hours are kept for some days only. What is older is drawn from the calls if there are few, and else by day.
	if r.Step < day && r.From.Before(q.Now.Add(-usage.KeepHours)) {
		page, err := l.read(ctx, q, r.From, maxRead)
		if err != nil || page.Next == nil {
			return n, nil, page.Calls, err
		}
		byDay()
		cells, err = l.cells(ctx, q, r.From, day)
		return n, cells, nil, err
	}
	// Steps of some minutes are drawn from hours if there are many calls, and those of some hours from days.
	if r.Step > time.Hour && r.Step < day && q.Range.Until.IsZero() {
		days := int(time.Duration(n) * r.Step / day)
		from := q.Now.UTC().Truncate(day).Add(-time.Duration(days-1) * day)
		if cells, err = l.cells(ctx, q, from, day); err != nil {
			return n, nil, nil, err
		}
		if len(cells) > mostDays && !few(cells) {
			n, r.Step, r.From = days, day, from
		} else {
			cells = nil
		}
	}
	step, from := max(r.Step, time.Hour), r.From
	if r.Step < time.Hour {
		from = usage.HourOf(r.From)
	}
	if cells == nil {
		if cells, err = l.cells(ctx, q, from, step); err != nil {
			return n, nil, nil, err
		}
	}
	// The sums by hour know classes of durations only. If there are few calls, reading each one gives exact percentiles.
	whole := false // whether calls has all of them
	if few(cells) {
		page, err := l.read(ctx, q, r.From, maxExact)
		if err != nil {
			return n, nil, nil, err
		}
		calls, whole = page.Calls, page.Next == nil
	}
	switch {
	case r.Step == step:
	case whole || len(cells) == 0:
		cells = nil
	case !q.Range.Until.IsZero():
		n, r.Step, r.From = int(usage.HourOf(last).Sub(from)/time.Hour)+1, time.Hour, from
	// Steps shorter than an hour need single calls. There are too many, so the range is drawn by hours instead.
	default:
		n = int(time.Duration(n) * r.Step / time.Hour)
		r.Step, r.From = time.Hour, q.Now.UTC().Truncate(time.Hour).Add(-time.Duration(n-1)*time.Hour)
		cells = slices.DeleteFunc(cells, func(c usage.Cell) bool { return c.Start.Before(r.From) })
	}
	return n, cells, calls, nil
}

// cells returns what the store has counted since a time, by steps.
func (l *Log) cells(ctx context.Context, q Query, from time.Time, step time.Duration) ([]usage.Cell, error) {
	return l.store.Cells(ctx, usage.CellQuery{AccountID: q.AccountID, From: from, To: q.Range.Until, Step: step, Narrow: q.narrow()})
}

// few reports whether there are so few calls that each can be looked at.
func few(cells []usage.Cell) bool {
	n := int64(0)
	for i := range cells {
		n += cells[i].Calls
	}
	return n > 0 && n <= maxExact
}

// read returns the newest calls since a time.
func (l *Log) read(ctx context.Context, q Query, from time.Time, most int) (usage.CallPage, error) {
	look := maxRead
	if q.sifts() {
		look = maxSifted
	}
	return l.sift(ctx, &q, usage.CallQuery{AccountID: q.AccountID, Before: usage.Point{At: q.end()}, From: from, Narrow: q.narrow(), Limit: most, Look: look})
}

// place returns the step that a time belongs to. What a clock that is ahead has recorded belongs to the last one.
func (r *Report) place(at time.Time) int {
	return max(0, min(len(r.Steps)-1, int(at.Sub(r.From)/r.Step)))
}

// addUp fills in steps, series and rows.
func (r *Report) addUp(cells []usage.Cell, calls []usage.Settlement) {
	series, models, keys := map[string]*Series{}, map[string]*Row{}, map[string]*Row{}
	asked := map[string]bool{}
	for i := range cells {
		c := &cells[i]
		at := r.place(c.Start)
		r.Total.Merge(&c.Tally)
		r.Steps[at].Merge(&c.Tally)
		name := r.group(&c.Kind)
		s := series[name]
		if s == nil {
			s = &Series{Group: name, Steps: make([]usage.Tally, len(r.Steps))}
			series[name] = s
		}
		s.Total.Merge(&c.Tally)
		s.Steps[at].Merge(&c.Tally)
		rowOf(models, c.Model).add(c)
		rowOf(keys, c.KeyID).add(c)
		asked[c.Asked] = true
	}
	r.Asked = slices.Sorted(maps.Keys(asked))
	var all durations
	each := make([]durations, len(r.Steps))
	for i := range calls {
		all.add(&calls[i])
		each[r.place(calls[i].At)].add(&calls[i])
	}
	r.Times = times(&r.Total, &all)
	for i := range r.Steps {
		r.Steps[i].Times = times(&r.Steps[i].Tally, &each[i])
	}
	r.Models, r.Keys = sorted(models), sorted(keys)
	for _, s := range series {
		r.Series = append(r.Series, *s)
	}
	slices.SortFunc(r.Series, func(a, b Series) int {
		return cmp.Or(cmp.Compare(b.Total.Calls, a.Total.Calls), cmp.Compare(a.Group, b.Group))
	})
	// A chart with more colours cannot be read. The last group holds all the small ones, so the sums are right.
	if len(r.Series) > MaxSeries {
		rest := Series{Group: Others, Steps: make([]usage.Tally, len(r.Steps))}
		for i := MaxSeries - 1; i < len(r.Series); i++ {
			rest.Total.Merge(&r.Series[i].Total)
			for k := range rest.Steps {
				rest.Steps[k].Merge(&r.Series[i].Steps[k])
			}
		}
		r.Series = append(r.Series[:MaxSeries-1], rest)
	}
}

// group returns what a kind of calls is grouped by.
func (r *Report) group(k *usage.Kind) string {
	switch r.By {
	case ByKey:
		return k.KeyID
	case ByStatus:
		if k.Status == 0 {
			return NoStatus
		}
		return strconv.Itoa(k.Status)
	case ByEnd:
		return string(k.End)
	}
	return k.Model
}

// rowOf returns the row with a name, and adds an empty one if there is none.
func rowOf(rows map[string]*Row, name string) *Row {
	row := rows[name]
	if row == nil {
		row = &Row{Name: name}
		rows[name] = row
	}
	return row
}

// add counts the calls of a cell.
func (r *Row) add(c *usage.Cell) {
	r.Merge(&c.Tally)
	if c.End == usage.EndFailed || c.End == usage.EndCut {
		r.Errors += c.Calls
	}
}

// sorted returns rows by their calls, the most first. Equal ones are ordered by name, so that a page does not change when
// it is loaded again.
func sorted(rows map[string]*Row) []Row {
	out := make([]Row, 0, len(rows))
	for _, row := range rows {
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name)) })
	return out
}

// addRefused adds refused calls. All of them are counted by minute for a week; what key and model they were about is
// known only of the last ones.
func (l *Log) addRefused(ctx context.Context, q Query, r *Report) error {
	if !q.refused() {
		return nil
	}
	byStatus := map[int]*Series{}
	count := func(at time.Time, status int, n int64) {
		s := byStatus[status]
		if s == nil {
			s = &Series{Group: strconv.Itoa(status), Refused: true, Steps: make([]usage.Tally, len(r.Steps))}
			byStatus[status] = s
		}
		i := r.place(at)
		s.Total.Calls += n
		s.Steps[i].Calls += n
		r.Steps[i].Refused += n
		r.Refused += n
	}
	if q.Model != "" || q.KeyID != "" {
		list, err := l.refusals.Refusals(ctx, q.AccountID, refusal.Point{At: q.end()}, refusal.Kept)
		if err != nil {
			return err
		}
		for i := range list {
			if !list[i].At.Before(r.From) && q.wants(&list[i]) {
				count(list[i].At, list[i].Status, 1)
			}
		}
		if n := len(list); n == refusal.Kept && list[n-1].At.After(r.From) {
			r.RefusedSince = list[n-1].At
		}
	} else {
		from := r.From
		if kept := q.Now.Add(-refusal.KeepMinutes); kept.After(from) {
			from, r.RefusedSince = kept, kept
		}
		minutes, err := l.refusals.RefusedMinutes(ctx, q.AccountID, from, r.Step)
		if err != nil {
			return err
		}
		for _, m := range minutes {
			if m.Start.Before(q.end()) {
				count(m.Start, m.Status, m.Calls)
			}
		}
	}
	switch r.By {
	case ByStatus:
		for _, status := range []int{http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests} {
			if s := byStatus[status]; s != nil {
				r.Series = append(r.Series, *s)
			}
		}
	case ByEnd:
		all := Series{Group: string(Refused), Refused: true, Steps: make([]usage.Tally, len(r.Steps))}
		for _, s := range byStatus {
			all.Total.Merge(&s.Total)
			for i := range s.Steps {
				all.Steps[i].Merge(&s.Steps[i])
			}
		}
		if all.Total.Calls > 0 {
			r.Series = append(r.Series, all)
		}
	}
	return nil
}
