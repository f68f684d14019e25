package support

import (
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"sluice/internal/kit/fault"
)

func TestWhenOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"":                          {},
		"2026-03-05T09:00":          time.Date(2026, 3, 5, 9, 0, 0, 0, time.UTC),
		" 2026-03-05T09:00 ":        time.Date(2026, 3, 5, 9, 0, 0, 0, time.UTC),
		"2026-03-05T07:00:00.000Z":  time.Date(2026, 3, 5, 7, 0, 0, 0, time.UTC),
		"2026-03-05T09:00:00+02:00": time.Date(2026, 3, 5, 7, 0, 0, 0, time.UTC),
	} {
		r := httptest.NewRequest("GET", "/?until="+url.QueryEscape(text), nil)
		if got, err := whenOf(r, "until"); err != nil || !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("whenOf(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "90", "2026-03-05", "2026-02-30T09:00"} {
		r := httptest.NewRequest("GET", "/?until="+url.QueryEscape(text), nil)
		if got, err := whenOf(r, "until"); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "until" {
			t.Errorf("whenOf(%q) = %s, %v, want it refused", text, got, err)
		}
	}
	// A form that was refused shows what was picked, in UTC.
	a := again{Form: "drain", Typed: url.Values{"until": {"2026-03-05T09:00:00+02:00"}}}
	other := time.Date(2026, 4, 1, 8, 0, 0, 0, time.UTC)
	if got := a.typedWhen("drain", "until", other); got != "2026-03-05T07:00" {
		t.Errorf("typedWhen = %q", got)
	}
	if got := a.typedWhen("edit", "until", other); got != "2026-04-01T08:00" {
		t.Errorf("typedWhen of a form that was not sent = %q", got)
	}
	if got := a.typedWhen("edit", "until", time.Time{}); got != "" {
		t.Errorf("typedWhen of no moment = %q", got)
	}
}
