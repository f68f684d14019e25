package support

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// refusedAtOnce is how many refused calls a page of the list has.
const refusedAtOnce = 50

// requestsView is the data of the request finder. Only one of the two searches is made at a time.
type requestsView struct {
	Query   string // what was looked for
	Problem string // why it was not found
	Found   admin.Requests

	Owner   admin.Account // whose refused calls are listed
	Refused admin.Refused
	First   bool // it is the first page of a list

	Newest admin.List[admin.RefusedCall] // the newest refused calls of all accounts, if nothing is looked for
	// Only chooses those of a status, an error and a model, and Models are the ids to choose from.
	Only   admin.NewestQuery
	Models []string
}

// refusedStatuses are the statuses that refused calls have most, and refusedKinds their errors.
var (
	refusedStatuses = []int{400, 401, 402, 403, 404, 423, 429, 503}
	refusedKinds    = []fault.Kind{fault.Invalid, fault.KeyDeactivated, fault.PaymentRequired, fault.BudgetExceeded, fault.PlanTooLow, fault.NotFound, fault.Suspended, fault.RateLimited, fault.Unavailable}
)

// newestPath returns the address of the newest refused calls, with the filters of this page.
func (v *requestsView) newestPath() string {
	q := url.Values{"model": {v.Only.Model}, "kind": {v.Only.Kind}}
	if v.Only.Status != 0 {
		q.Set("status", strconv.Itoa(v.Only.Status))
	}
	return home + "/requests?" + q.Encode()
}

// requestsPage finds a request by its id, and lists the refused calls of an account. A search for q leads to the address of
// what it can only mean.
func (c *Console) requestsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	q := strings.TrimSpace(r.FormValue("q"))
	id, ref := strings.TrimSpace(r.FormValue("id")), strings.TrimSpace(r.FormValue("account"))
	view := requestsView{Query: cmp.Or(q, id, ref)}
	if len(view.Query) > maxQuery {
		return fault.New(fault.Invalid, "Search for at most %d characters.", maxQuery)
	}
	status := http.StatusOK
	var err error
	switch {
	case q != "" && isAccount(q):
		return c.seeOther(w, r, refusedPath(q), "")
	case q != "":
		return c.seeOther(w, r, requestPath(q), "")
	case id != "":
		view.Found, err = run(c, r, m, c.ops.RequestShow, admin.RequestQuery{ID: id})
		status, view.Problem, err = missing(err)
	case ref != "":
		view.Owner, err = run(c, r, m, c.ops.AccountShow, admin.Target{Ref: ref})
		status, view.Problem, err = missing(err)
		if err == nil && view.Problem == "" {
			in := admin.AccountPage{Ref: view.Owner.ID, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: refusedAtOnce}}
			view.First = in.After == ""
			view.Refused, err = run(c, r, m, c.ops.RequestRefused, in)
		}
	default:
		if view.Only.Status, err = numberOf(r, "status", 599); err != nil {
			return err
		}
		view.Only.Model, view.Only.Kind, view.Only.After = strings.TrimSpace(r.FormValue("model")), r.FormValue("kind"), r.FormValue("after")
		view.First = view.Only.After == ""
		if view.Newest, err = run(c, r, m, c.ops.RequestNewest, view.Only); err == nil {
			view.Models, err = c.modelIDs(r, m)
		}
	}
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, status, requestsPage(c.frame(w, r, m, "Requests"), view))
}

// isAccount reports whether a search can only mean an account.
func isAccount(q string) bool {
	return strings.Contains(q, "@") || strings.HasPrefix(q, "acct_") || strings.HasPrefix(q, "key_")
}

// missing returns what to tell the member if what they look for is not there. err is that of the search.
func missing(err error) (status int, problem string, rest error) {
	if err == nil {
		return http.StatusOK, "", nil
	}
	problems, status, rest := webui.Refused(err)
	for _, text := range problems {
		problem = text
	}
	return status, problem, rest
}

// requestPath returns the path of the page that shows a request.
func requestPath(id string) string { return home + "/requests?id=" + url.QueryEscape(id) }

// refusedPath returns the path of the page with an account's refused calls.
func refusedPath(account string) string {
	return home + "/requests?account=" + url.QueryEscape(account)
}

// stretch is a part of the time of a request, in the units of its drawing.
type stretch struct{ x, width string }

// drawing is the width of the drawing of an attempt.
const drawing = 200

// stretchOf returns where an attempt is in the time of its request.
func stretchOf(r *admin.Request, a admin.Attempt) stretch {
	whole := max(float64(r.LatencyMS), a.EndMS, 1)
	from, to := drawing*a.StartMS/whole, drawing*a.EndMS/whole
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	return stretch{text(min(from, drawing-2)), text(max(to-from, 2))}
}

// tone returns the colour of an outcome.
func tone(outcome string) string {
	switch outcome {
	case "answered", "complete":
		return "good"
	case "hang_up", "caller gone":
		return ""
	}
	return "bad"
}

// inMillis formats milliseconds.
func inMillis(ms float64) string {
	if ms >= 100 {
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
}

// tokensText describes the tokens of a request.
func tokensText(r *admin.Request) string {
	text := fmt.Sprintf("%d input", r.PromptTokens)
	if r.CachedTokens > 0 {
		text += fmt.Sprintf(" (%d cached)", r.CachedTokens)
	}
	if r.CacheWriteTokens > 0 {
		text += fmt.Sprintf(" (%d written to the cache)", r.CacheWriteTokens)
	}
	text += fmt.Sprintf(", %d output", r.CompletionTokens)
	if r.ReasoningTokens > 0 {
		text += fmt.Sprintf(" (%d reasoning)", r.ReasoningTokens)
	}
	if r.Counted {
		text += ", counted by us"
	}
	return text
}

// costText describes what a request cost.
func costText(r *admin.Request) string {
	cost := "no price"
	if r.CostUSD != "" {
		cost = "$" + r.CostUSD.String()
	}
	if r.ChargeUSD != "" {
		cost += ", charged $" + r.ChargeUSD.String()
	}
	return fmt.Sprintf("%s; requests %s, units %s", cost, r.Requests, r.Units)
}

// timeText says how long a request took.
func timeText(r *admin.Request) string {
	text := inMillis(float64(r.LatencyMS))
	if r.FirstTokenMS > 0 {
		text += ", first token after " + inMillis(float64(r.FirstTokenMS))
	}
	return text
}

// whyText says in a sentence what became of a request.
func whyText(r *admin.Request) string {
	var tries []string
	for _, a := range r.Attempts {
		how := a.Outcome
		if a.Status != 0 {
			how += fmt.Sprintf(" with %d", a.Status)
		}
		tries = append(tries, fmt.Sprintf("%s %s after %s", a.Provider, how, inMillis(a.EndMS-a.StartMS)))
	}
	text := "It " + map[string]string{"complete": "completed", "hang_up": "ended early because the caller disconnected", "cut": "was cut off"}[r.Outcome]
	if text == "It " {
		text = "It ended as " + outcomeText(r.Outcome)
	}
	switch {
	case r.Status >= 400:
		text = fmt.Sprintf("It failed, and the caller got %d", r.Status)
	case r.Outcome == "failed":
		text = "It failed"
	}
	if len(tries) == 0 {
		return text + "."
	}
	return text + ": " + strings.Join(tries, ", then ") + "."
}

// outcomeText says how a request ended.
func outcomeText(outcome string) string {
	return cmp.Or(map[string]string{"complete": "completed", "hang_up": "caller disconnected", "cut": "cut off"}[outcome], outcome)
}

// refusedTotal adds up counts.
func refusedTotal(hours []refusal.Minute) (n int64) {
	for _, h := range hours {
		n += h.Calls
	}
	return n
}
