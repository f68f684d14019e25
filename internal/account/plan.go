package account

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Plan is what an account has subscribed to or been granted. As the plan of a model it is the least
// plan that may call it; only Free, Basic and Premium occur there.
type Plan uint8

// The plans, in rising order. None is an account that never chose one, or whose plan lapsed.
const (
	None Plan = iota
	Free
	Basic
	Premium
	Scale
)

// planNames are stored and sent to clients; do not change them.
var planNames = [...]string{None: "none", Free: "free", Basic: "basic", Premium: "premium", Scale: "scale"}

// String returns the plan's name on the wire and in the database.
func (p Plan) String() string { return planNames[p] }

// Title returns the plan's name as pages and mail write it.
func (p Plan) Title() string { return strings.ToUpper(p.String()[:1]) + p.String()[1:] }

// ParsePlan returns the plan with that name, as String writes it.
func ParsePlan(name string) (Plan, error) {
	for p, n := range planNames {
		if n == name {
			return Plan(p), nil
		}
	}
	return None, fmt.Errorf("%q is not a plan; use none, free, basic, premium or scale", name)
}

// MarshalText returns the plan's name, which is what it is in JSON.
func (p Plan) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name of a plan.
func (p *Plan) UnmarshalText(name []byte) (err error) {
	*p, err = ParsePlan(string(name))
	return err
}

// Includes reports whether the plan covers models of the tier. Free-tier models need no plan at all
// (docs/api.md#plan-and-model-access).
func (p Plan) Includes(tier Plan) bool { return tier <= Free || p >= tier }

// IncludesTools reports whether the plan covers tool calling (docs/api.md#tool-calling).
func (p Plan) IncludesTools() bool { return p >= Basic }

// Limit is a whole number from 0 to MostLimit, or Unlimited.
type Limit int64

// Unlimited is a limit that nothing reaches. It is negative, so check for it before comparing.
const Unlimited Limit = -1

// MarshalJSON writes the number, or "unlimited".
func (l Limit) MarshalJSON() ([]byte, error) {
	if l == Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return json.Marshal(int64(l))
}

// MostLimit is the largest limit that is not Unlimited. It is far above any sensible limit, and low
// enough that sums of its thousandths fit an int64.
const MostLimit Limit = 1_000_000_000_000

// UnmarshalJSON reads a whole number from 0 to MostLimit, or "unlimited".
func (l *Limit) UnmarshalJSON(b []byte) error {
	if string(b) == `"unlimited"` {
		*l = Unlimited
		return nil
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil || n < 0 || n > int64(MostLimit) {
		return fmt.Errorf("%s is not a limit; use a whole number from 0 to %d or \"unlimited\"", b, MostLimit)
	}
	*l = Limit(n)
	return nil
}

// Limits is how much an account may do at once and in a minute.
type Limits struct {
	RequestsPerMinute Limit `json:"requests_per_minute"`
	Concurrent        Limit `json:"concurrent"`
	TokensPerMinute   Limit `json:"tokens_per_minute"`
}

// Terms is what a plan gives and costs.
type Terms struct {
	Limits
	PriceCents int64 // a month, in US cents
	// MonthlyUnits is the budget of each tier of models. The abuse score is the percentage of it
	// that was used.
	MonthlyUnits Limit
	// UnfinishedVideos is how many video jobs may wait or run at once.
	UnfinishedVideos Limit
}

// Plans holds the terms of every plan, indexed by Plan.
type Plans [Scale + 1]Terms

// BuiltinPlans returns the plans as they are unless the configuration changes them
// (docs/api.md#limits-by-plan). A monthly budget is more than half of the units that an account
// could use in a month if it called a model of one unit without a pause.
func BuiltinPlans() Plans {
	free := Terms{Limits: Limits{RequestsPerMinute: 2, Concurrent: 2, TokensPerMinute: 150_000}, MonthlyUnits: 50_000, UnfinishedVideos: 2}
	return Plans{
		None:    free,
		Free:    free,
		Basic:   {Limits{RequestsPerMinute: 10, Concurrent: 5, TokensPerMinute: 500_000}, 10_00, 250_000, 10},
		Premium: {Limits{RequestsPerMinute: 30, Concurrent: 15, TokensPerMinute: 2_000_000}, 25_00, 750_000, 30},
		Scale:   {Limits{RequestsPerMinute: 80, Concurrent: 50, TokensPerMinute: 8_000_000}, 75_00, 2_000_000, 100},
	}
}

// Overrides replaces single limits of an account's plan; nil keeps the plan's.
type Overrides struct {
	RequestsPerMinute *Limit `json:"requests_per_minute,omitempty"`
	Concurrent        *Limit `json:"concurrent,omitempty"`
	TokensPerMinute   *Limit `json:"tokens_per_minute,omitempty"`
}

// Over returns l with the overrides applied.
func (l Limits) Over(o Overrides) Limits {
	if o.RequestsPerMinute != nil {
		l.RequestsPerMinute = *o.RequestsPerMinute
	}
	if o.Concurrent != nil {
		l.Concurrent = *o.Concurrent
	}
	if o.TokensPerMinute != nil {
		l.TokensPerMinute = *o.TokensPerMinute
	}
	return l
}
