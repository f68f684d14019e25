package costs

import (
	"net/url"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/usage"
)

const (
	// window is how many days are explained unless told, today included: those that the pages show.
	window = 30
	// mostDays is how many days can be explained at once, and mostRecounted how many if their calls must be added up.
	mostDays, mostRecounted = 366, 31
	// maxText is the length of a parameter at most, in bytes.
	maxText = 256
	day     = 24 * time.Hour
)

// Select reads which calls of an account are meant: from and to, or day, or month; key, model, served and outcome. Without a
// time it is the last 30 days. Days are those of UTC; to is the first moment that is not meant.
func Select(accountID string, query url.Values, now time.Time) (usage.Selection, error) {
	sel := usage.Selection{AccountID: accountID}
	for _, name := range []string{"from", "to", "day", "month", "key", "model", "served", "outcome"} {
		if v := query.Get(name); len(v) > maxText || query.Has(name) && v == "" {
			return sel, fault.New(fault.Invalid, "%s must have 1 to %d bytes; got %d.", name, maxText, len(v)).At(name)
		}
	}
	outcome := activity.Outcome(query.Get("outcome"))
	if !outcome.Valid() || outcome == activity.Refused {
		return sel, fault.New(fault.Invalid, "outcome must be completed, errors or disconnected; got %q. Refused calls cost nothing.", excerpt.Of(string(outcome), maxText)).At("outcome")
	}
	sel.Narrow = usage.Narrow{KeyID: query.Get("key"), Model: query.Get("model"), Served: query.Get("served"), Ends: outcome.Ends()}
	if err := span(&sel, query, now); err != nil {
		return sel, err
	}
	return sel, bounded(&sel)
}

// span sets the time of a selection.
func span(sel *usage.Selection, query url.Values, now time.Time) error {
	var err error
	switch {
	case query.Has("day"):
		if sel.From, err = time.Parse(time.DateOnly, query.Get("day")); err != nil {
			return fault.New(fault.Invalid, "day must be a day such as 2026-11-18; got %q.", excerpt.Of(query.Get("day"), maxText)).At("day")
		}
		sel.To = sel.From.Add(day)
		return nil
	case query.Has("month"):
		if sel.From, err = time.Parse("2006-01", query.Get("month")); err != nil {
			return fault.New(fault.Invalid, "month must be a month such as 2026-11; got %q.", excerpt.Of(query.Get("month"), maxText)).At("month")
		}
		sel.To = sel.From.AddDate(0, 1, 0)
		return nil
	}
	sel.To = usage.DayOf(now).Add(day)
	if query.Has("to") {
		if sel.To, err = Moment("to", query.Get("to")); err != nil {
			return err
		}
	}
	sel.From = usage.DayOf(sel.To.Add(-1)).Add((1 - window) * day)
	if query.Has("from") {
		sel.From, err = Moment("from", query.Get("from"))
	}
	return err
}

// bounded returns an error if a selection is too long.
func bounded(sel *usage.Selection) error {
	switch span := sel.To.Sub(sel.From); {
	case span <= 0:
		return fault.New(fault.Invalid, "to must be after from; it is the first moment that is left out.").At("to")
	case span > mostDays*day:
		return fault.New(fault.Invalid, "At most %d days can be explained at once. Ask for one month after the other.", mostDays).At("from")
	case span > mostRecounted*day && (sel.Model != "" || len(sel.Ends) > 0):
		return fault.New(fault.Invalid, "With model or outcome, at most %d days can be explained at once. Ask for one month after the other, or use served, the model that answered.", mostRecounted).At("from")
	}
	return nil
}

// Moment reads a parameter that is a day or a moment.
func Moment(name, text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || t.Year() < 2000 || t.Year() > 9000 {
		return t, fault.New(fault.Invalid, "%s must be a day such as 2026-11-18 or a moment such as 2026-11-18T09:00:00Z; got %q.", name, excerpt.Of(text, maxText)).At(name)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}
