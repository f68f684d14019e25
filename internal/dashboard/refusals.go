package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/fault"
	"sluice/internal/refusal"
)

// Refusals reads calls that were refused. Every method returns those of one account only.
type Refusals interface {
	// Refusals returns an account's refused calls before a point in time, newest first, at most limit of them.
	Refusals(ctx context.Context, accountID string, before refusal.Point, limit int) ([]refusal.Call, error)
	// RefusedMinutes returns how many calls were refused since a time, by status and by spans of time.
	RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]refusal.Minute, error)
}

// refusedAtOnce is the number of refused calls in one part of the list.
const refusedAtOnce = 10

// refusedView is the part of the usage page about refused calls.
type refusedView struct {
	Counts []refusedCount // only statuses that occurred
	Recent refusedPart
}

// refusedCount is how often calls were refused with a status lately.
type refusedCount struct {
	Status          int
	Hour, Day, Week int64
}

// refusedPart is one part of the list of refused calls.
type refusedPart struct {
	Calls []refusal.Call
	Names map[string]string // of keys, by id
	// Next is the address of the next part, or "" if this is the last.
	Next string
}

// refused returns the part of the usage page about refused calls.
func (d *Dashboard) refused(r *http.Request, v *visitor) (view refusedView, err error) {
	now := d.now()
	hours, err := d.Refusals.RefusedMinutes(r.Context(), v.ID, now.Add(-refusal.KeepMinutes), time.Hour)
	if err != nil || len(hours) == 0 {
		return refusedView{}, err
	}
	minutes, err := d.Refusals.RefusedMinutes(r.Context(), v.ID, now.Add(-time.Hour), time.Minute)
	if err != nil {
		return refusedView{}, err
	}
	counts := map[int]*refusedCount{}
	for _, h := range hours {
		c := counts[h.Status]
		if c == nil {
			c = &refusedCount{Status: h.Status}
			counts[h.Status] = c
		}
		c.Week += h.Calls
		if h.Start.After(now.Add(-24 * time.Hour)) {
			c.Day += h.Calls
		}
	}
	for _, m := range minutes {
		if c := counts[m.Status]; c != nil {
			c.Hour += m.Calls
		}
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests} {
		if c := counts[status]; c != nil {
			view.Counts = append(view.Counts, *c)
		}
	}
	view.Recent, err = d.refusedCalls(r, v, refusal.Point{At: now.Add(time.Minute)})
	return view, err
}

// moreRefused renders the next part of the list of refused calls, for htmx.
func (d *Dashboard) moreRefused(w http.ResponseWriter, r *http.Request, v *visitor) error {
	before, err := strconv.ParseInt(r.FormValue("before"), 10, 64)
	if err != nil {
		return fault.New(fault.Invalid, "There is no such part of the list.")
	}
	part, err := d.refusedCalls(r, v, refusal.Point{At: time.UnixMilli(before), ID: r.FormValue("id")})
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, refusedRows(part))
}

// refusedCalls reads one part of the list. A full part may be the last one; the next is then empty.
func (d *Dashboard) refusedCalls(r *http.Request, v *visitor, before refusal.Point) (refusedPart, error) {
	calls, err := d.Refusals.Refusals(r.Context(), v.ID, before, refusedAtOnce)
	part := refusedPart{Calls: calls, Names: keyNames(v)}
	if len(calls) == refusedAtOnce {
		last := calls[len(calls)-1]
		part.Next = fmt.Sprintf("%s/usage/refused?before=%d&id=%s", home, last.At.UnixMilli(), url.QueryEscape(last.ID))
	}
	return part, err
}

// refusedWhy says why calls with a status were refused.
func refusedWhy(status int) string {
	switch status {
	case http.StatusPaymentRequired:
		return "Needs a paid plan"
	case http.StatusForbidden:
		return "Not in your plan, or not allowed"
	case http.StatusTooManyRequests:
		return "Rate limit reached"
	}
	return "Invalid request"
}
