package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// accountReply is the reply of GET /v1/account.
type accountReply struct {
	Object    string         `json:"object"`
	ID        string         `json:"id"`
	Email     string         `json:"email"`
	Plan      string         `json:"plan"`
	Granted   bool           `json:"granted"`
	Limits    account.Limits `json:"limits"`
	Remaining remainingReply `json:"remaining"`
	Abuse     abuseReply     `json:"abuse"`
}

// remainingReply is what remains of the rate limits in this minute. A limit that does not
// exist is null.
type remainingReply struct {
	Requests *meterReply `json:"requests"`
	Tokens   *meterReply `json:"tokens"`
}

// meterReply is one limit: what remains of it, and the milliseconds until all of it is
// available again.
type meterReply struct {
	Left    int64 `json:"left"`
	ResetMS int64 `json:"reset_ms"`
}

// abuseReply is the overall score, which is the highest of all tiers, and its parts.
type abuseReply struct {
	Score int         `json:"score"`
	Tiers []tierReply `json:"tiers"`
}

// tierReply is the abuse score of one tier of models. Units and Budget count requests of this
// month; a call to an expensive model counts as several.
type tierReply struct {
	Tier    string        `json:"tier"`
	Score   int           `json:"score"`
	Units   json.Number   `json:"units"`
	Budget  account.Limit `json:"budget"`
	Reaches *string       `json:"reaches_100_on"` // a day; null: not this month at the current rate
}

// showAccount serves GET /v1/account.
func (a *API) showAccount(x *exchange, _ *http.Request) error {
	acct, limits := x.caller.Account, x.limits()
	headroom := a.opts.Ledger.Peek(acct.ID, limits)
	tiers, score := a.opts.Abuse.Scores(acct.ID, acct.Plan)
	out := accountReply{
		Object: "account", ID: acct.ID, Email: acct.Email, Plan: acct.Plan.String(), Granted: acct.Granted, Limits: limits,
		Remaining: remainingReply{Requests: meterOf(headroom.Requests), Tokens: meterOf(headroom.Tokens)},
		Abuse:     abuseReply{Score: score, Tiers: make([]tierReply, 0, len(tiers))},
	}
	for _, t := range tiers {
		r := tierReply{Tier: t.Tier.String(), Score: t.Score, Units: thousandths(t.Units), Budget: t.Budget}
		if !t.Reaches.IsZero() {
			day := t.Reaches.UTC().Format(time.DateOnly)
			r.Reaches = &day
		}
		out.Abuse.Tiers = append(out.Abuse.Tiers, r)
	}
	return x.encode(out)
}

// meterOf converts a meter. It returns nil if there is no limit.
func meterOf(m admission.Meter) *meterReply {
	if m.Limit == account.Unlimited {
		return nil
	}
	return &meterReply{Left: m.Remaining, ResetMS: m.Reset.Milliseconds()}
}

// thousandths writes 1500 as 1.5, without trailing zeros.
func thousandths(v int64) json.Number {
	text := strconv.FormatFloat(float64(v)/1000, 'f', 3, 64)
	return json.Number(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}
