package budget

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
)

// Fault returns the 402 for a call that does not fit the budget. Smaller says how such a call can cost less, as a part of a sentence.
func (o *Obstacle) Fault(smaller string) error {
	text := fmt.Sprintf("This call may cost up to $%s, and the budget %q of $%s %s has $%s left: $%s are spent and $%s are reserved for calls that are running.",
		o.Needed, o.Name, o.Amount, span(o.Budget), o.Left, o.Spent, o.Reserved)
	switch {
	case o.Needed > o.Amount:
		text += fmt.Sprintf(" It can never pass: %s, or ask the owner of the account to raise the budget.", smaller)
	case !o.ResetsAt.IsZero():
		text += fmt.Sprintf(" The budget begins again %s. Until then %s, or ask the owner of the account to raise it.", o.ResetsAt.Format(time.RFC3339), smaller)
	default:
		text += fmt.Sprintf(" %s%s, or ask the owner of the account to raise the budget.", strings.ToUpper(smaller[:1]), smaller[1:])
	}
	f := fault.New(fault.BudgetExceeded, "%s", text).After(o.Wait)
	f.Budget = o.object()
	return f
}

// span says for which time the amount of a budget is.
func span(b *account.Budget) string {
	word := map[account.Window]string{
		account.Daily: "a day", account.Weekly: "a week", account.Monthly: "a month", account.Rolling24: "in 24 hours", account.Rolling30: "in 30 days", account.Total: "in all",
	}[b.Window]
	switch s := b.Scope; {
	case s.Session != "" && s.Key != "":
		word += " for each session of this key"
	case s.Session != "":
		word += " for each session"
	}
	return word
}

// object returns the budget in the way, for programs.
func (o *Obstacle) object() json.RawMessage {
	var resets *string
	if !o.ResetsAt.IsZero() {
		at := o.ResetsAt.UTC().Format(time.RFC3339)
		resets = &at
	}
	scope := any(o.Scope)
	if o.Session != "" {
		scope = account.BudgetScope{Session: o.Session, Key: o.Scope.Key}
	}
	return object(map[string]any{
		"id": o.ID, "name": o.Name, "scope": scope, "amount": o.Amount.String(), "spent": o.Spent.String(), "reserved": o.Reserved.String(),
		"left": o.Left.String(), "needed": o.Needed.String(), "resets_at": resets,
	})
}

// object returns the JSON of an object.
func object(members map[string]any) json.RawMessage {
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}

// TooDear returns the 402 for a call that could cost more at a model than its caller allows. Advice is the last sentence of its
// message.
func TooDear(model string, needed, most price.Nano, advice string) error {
	f := fault.New(fault.BudgetExceeded, "This call may cost up to $%s at %q, and max_cost is $%s. %s", needed, model, most, advice).At("max_cost")
	f.Budget = object(map[string]any{
		"id": nil, "name": "max_cost", "scope": map[string]bool{"request": true}, "amount": most.String(), "spent": price.Nano(0).String(), "reserved": price.Nano(0).String(),
		"left": most.String(), "needed": needed.String(), "resets_at": nil,
	})
	return f
}

// Unpriced returns the 402 for a call of a model without a price, whose cost nobody can bound: because of a hard budget among dues, or
// else because of the max_cost of its caller.
func Unpriced(model string, dues []Due) error {
	d := firstHard(dues)
	if d == nil {
		return unbounded(fault.New(fault.BudgetExceeded, "The model %q has no price, so nobody can say whether this call stays below max_cost. Use a model with a price, or leave max_cost out.", model).At("max_cost"), d)
	}
	return unbounded(fault.New(fault.BudgetExceeded, "The model %q has no price, so nobody can say whether this call fits the budget %q. Use a model with a price, or ask the operator to set one.", model, d.Name).At("model"), d)
}

// Unknown is Unpriced for another problem, the beginning of a sentence, which is at a field. Advice is the last sentence of the
// message. Without a hard budget, leaving max_cost out helps, too.
func Unknown(problem, advice string, dues []Due, param string) error {
	d := firstHard(dues)
	if d == nil {
		return unbounded(fault.New(fault.BudgetExceeded, "%s, so nobody can say whether this call stays below max_cost. %s Or leave max_cost out.", problem, advice).At(param), d)
	}
	return unbounded(fault.New(fault.BudgetExceeded, "%s, so nobody can say whether this call fits the budget %q. %s", problem, d.Name, advice).At(param), d)
}

// firstHard returns the first budget that is hard, or nil.
func firstHard(dues []Due) *Due {
	for i := range dues {
		if dues[i].Hard {
			return &dues[i]
		}
	}
	return nil
}

// unbounded adds the budget to the fault of a call whose cost nobody can bound; nil: max_cost.
func unbounded(f *fault.Fault, d *Due) error {
	all := map[string]any{"id": nil, "name": "max_cost", "scope": map[string]bool{"request": true}, "amount": nil, "spent": nil, "reserved": nil, "left": nil, "needed": nil, "resets_at": nil}
	if d != nil {
		all["id"], all["name"], all["scope"], all["amount"] = d.ID, d.Name, d.Scope, price.Nano(d.Amount).String()
	}
	f.Budget = object(all)
	return f
}

// Paused returns the 402 for a call with a key that is paused because its program seems to run away.
func Paused(p *account.PausedKey) error {
	f := fault.New(fault.BudgetExceeded, "This key was paused at %s because its program seems to run away. %s Calls with it are refused until the owner of the account resumes the key: on the page Budgets of the dashboard, or with the master key by POST /v1/budgets/resume.",
		p.At.UTC().Format(time.RFC3339), p.Seen)
	f.Budget = object(map[string]any{
		"id": nil, "name": "runaway watch", "scope": account.BudgetScope{Key: p.KeyID}, "amount": nil, "spent": nil, "reserved": nil, "left": nil, "needed": nil, "resets_at": nil,
		"paused_at": p.At.UTC().Format(time.RFC3339), "signal": p.Signal, "seen": p.Seen,
	})
	return f
}

// ParseMaxCost returns the amount that a caller allows a call to cost.
func ParseMaxCost(text string) (*price.Nano, error) {
	if n, err := price.Parse(text); err == nil {
		return &n, nil
	}
	// A number with more decimals than there are is rounded down, which is the safe side.
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v <= 1_000_000 {
		n := price.Nano(math.Floor(v * 1e9))
		return &n, nil
	}
	return nil, fault.New(fault.Invalid, "max_cost must be a number of dollars from 0 to 1000000.").At("max_cost")
}
