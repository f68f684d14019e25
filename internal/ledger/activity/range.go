package activity

import (
	"time"

	"sluice/internal/ledger/usage"
)

// Range is a span of time, and the steps that it is drawn by.
type Range struct {
	Name string // as in addresses; empty: it was chosen by its ends
	Text string
	Step time.Duration
	N    int // the number of steps, the current one included
	// Until is the end of a range that was chosen by its ends. Zero: it ends now.
	Until time.Time
}

// ranges are from the shortest to the longest. Steps of an hour and more are counted by the store.
var ranges = [...]Range{
	{Name: "1h", Text: "Last hour", Step: time.Minute, N: 60},
	{Name: "6h", Text: "Last 6 hours", Step: 10 * time.Minute, N: 36},
	{Name: "24h", Text: "Last 24 hours", Step: time.Hour, N: 24},
	{Name: "7d", Text: "Last 7 days", Step: 6 * time.Hour, N: 28},
	{Name: "30d", Text: "Last 30 days", Step: day, N: 30},
}

// Ranges returns all ranges that end now, the shortest first.
func Ranges() []Range { return ranges[:] }

// RangeOf returns the range with a name.
func RangeOf(name string) (Range, bool) {
	for _, r := range ranges {
		if r.Name == name {
			return r, true
		}
	}
	return Range{}, false
}

// mostSteps is how many steps a range has at most that was chosen by its ends, unless they are days.
const mostSteps = 60

// Between returns the range between two times, widened to whole steps. ok is false if there is none, or if nothing of it is kept.
func Between(from, until, now time.Time) (r Range, ok bool) {
	from, until = from.UTC(), until.UTC()
	if latest := now.UTC().Add(time.Minute); until.After(latest) {
		until = latest
	}
	if !from.Before(until) || from.Before(now.Add(-usage.KeepDays)) {
		return Range{}, false
	}
	r.Text = from.Format("2 Jan 15:04") + " – " + until.Format("2 Jan 15:04") + " UTC"
	for _, known := range ranges {
		r.Step = known.Step
		first, last := from.Truncate(r.Step), until.Add(-1).Truncate(r.Step)
		r.N, r.Until = int(last.Sub(first)/r.Step)+1, last.Add(r.Step)
		if r.N <= mostSteps {
			break
		}
	}
	return r, true
}

// From returns where the range begins.
func (r *Range) From(now time.Time) time.Time {
	return r.last(now).Add(-time.Duration(r.N-1) * r.Step)
}

// last returns the start of the last step.
func (r *Range) last(now time.Time) time.Time {
	if !r.Until.IsZero() {
		return r.Until.Add(-r.Step)
	}
	return now.UTC().Truncate(r.Step)
}

// Before returns the range of as many steps that ends where this one begins.
func (r *Range) Before(now time.Time) Range {
	out := *r
	out.Until = r.From(now)
	return out
}
