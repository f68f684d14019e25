package support

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
)

// picked is the form in which a browser sends the moment that somebody picked.
const picked = "2006-01-02T15:04"

// whenOf reads a moment of a form; empty is the zero time. A browser sends it without a time zone: it is in UTC, unless
// console.js has said which moment it is in the zone of the reader.
func whenOf(r *http.Request, name string) (time.Time, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{picked, time.RFC3339Nano} {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "Pick a day and a time, such as 2026-03-05 09:00.").At(name)
}

// preset is a moment that people often pick. In minutes from now, or "morning" for nine o'clock of the next day.
type preset struct{ in, text string }

var (
	// forDrains are how long a drain lasts.
	forDrains = []preset{{"60", "1 hour"}, {"240", "4 hours"}, {"morning", "Tomorrow 9:00"}}
	// forMoves are when a model moves.
	forMoves = []preset{{"10080", "1 week"}, {"43200", "30 days"}}
)

// typedWhen returns what was picked in a form that was refused, as a browser shows it again, or else a moment; "" for none.
func (a *again) typedWhen(form, field string, otherwise time.Time) string {
	text := ""
	if !otherwise.IsZero() {
		text = otherwise.UTC().Format(picked)
	}
	text = a.typed(form, field, text)
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC().Format(picked)
	}
	return text
}

// numberOf reads a whole number of a form, from 0 to most. Empty is 0.
func numberOf(r *http.Request, name string, most int) (int, error) {
	text := strings.TrimSpace(r.FormValue(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fault.New(fault.Invalid, "Enter a whole number from 0 to %d.", most).At(name)
	}
	return n, nil
}
