package httpapi

import (
	"net/http"
	"strconv"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/runaway"
	"sluice/internal/prompt/chat"
)

const (
	budgetsPath = "/v1/budgets"
	// maxBudgetBody is the largest body of a request about a budget.
	maxBudgetBody = 16 << 10
)

// budgetList is the reply of GET /v1/budgets.
type budgetList struct {
	Object string          `json:"object"`
	Data   []budget.Record `json:"data"`
}

// budgeted wraps the handlers of budgets, which are for the master key: whoever has a sub-key must not raise what it may spend.
func (a *API) budgeted(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if a.opts.Budgets == nil {
			return nothingAt(r)
		}
		if k := x.caller.Account.Key(x.caller.KeyID); k == nil || !k.Master {
			return fault.New(fault.Forbidden, "Budgets are read and changed with the account's master key only. Use it, or the dashboard.")
		}
		return next(x, r)
	}
}

// listBudgets serves GET /v1/budgets.
func (a *API) listBudgets(x *exchange, r *http.Request) error {
	list, err := a.opts.Budgets.List(r.Context(), x.caller.Account)
	if err != nil {
		return err
	}
	return x.encode(budgetList{"list", list})
}

// showBudget serves GET /v1/budgets/{id}.
func (a *API) showBudget(x *exchange, r *http.Request) error {
	one, err := a.opts.Budgets.One(r.Context(), x.caller.Account, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.encode(one)
}

// createBudget serves POST /v1/budgets. Like every change of a budget it counts as one request, which bounds the audit log.
func (a *API) createBudget(x *exchange, r *http.Request) error {
	c, err := a.budgetChange(x, r)
	if err != nil {
		return err
	}
	made, err := a.opts.Budgets.Create(r.Context(), account.Order{}, x.byKey(), x.caller.Account.ID, c)
	if err != nil {
		return err
	}
	return x.encode(made)
}

// changeBudget serves PATCH /v1/budgets/{id}.
func (a *API) changeBudget(x *exchange, r *http.Request) error {
	c, err := a.budgetChange(x, r)
	if err != nil {
		return err
	}
	changed, err := a.opts.Budgets.Change(r.Context(), account.Order{}, x.byKey(), x.caller.Account.ID, r.PathValue("id"), c)
	if err != nil {
		return err
	}
	return x.encode(changed)
}

// deleteBudget serves DELETE /v1/budgets/{id}.
func (a *API) deleteBudget(x *exchange, r *http.Request) error {
	if err := a.line.Admit(x.Header(), x.caller, x.limits()); err != nil {
		return err
	}
	id := r.PathValue("id")
	if err := a.opts.Budgets.Delete(r.Context(), account.Order{}, x.byKey(), x.caller.Account.ID, id); err != nil {
		return err
	}
	return x.json(append(jsonscan.AppendQuoted([]byte(`{"id":`), id), `,"object":"budget","deleted":true}`...))
}

// byKey returns who acts, for the audit log.
func (x *exchange) byKey() string { return "api:" + x.caller.KeyID }

// budgetChange reads the body of a request that makes or changes a budget, and admits the request.
func (a *API) budgetChange(x *exchange, r *http.Request) (c budget.Change, err error) {
	body, release, err := a.readBody(x, r, maxBudgetBody, 1)
	if err != nil {
		return c, err
	}
	defer release()
	if c, err = parseBudget(body); err != nil {
		return c, err
	}
	return c, a.line.Admit(x.Header(), x.caller, x.limits())
}

// budgetShape is the keys of a body about a budget.
var budgetShape = chat.Keys("name", "amount", "window", "timezone", "hard", "marks").With(chat.Shape{"scope": chat.Keys("account", "key", "tag", "session")})

// parseBudget reads what is given of a budget. Values that no budget can have are refused by account.Budget.Check.
func parseBudget(body []byte) (c budget.Change, err error) {
	root, err := chat.Check(body, "name, amount, window and scope", budgetShape)
	if err != nil {
		return c, err
	}
	for w := root.Walk(); w.Next(); {
		v := w.Value
		switch string(w.Key) {
		case "name":
			c.Name, err = budgetText(v, "name")
		case "window":
			var window *string
			if window, err = budgetText(v, "window"); err == nil {
				c.Window = (*account.Window)(window)
			}
		case "timezone":
			c.Timezone, err = budgetText(v, "timezone")
		case "amount":
			c.Amount, err = budget.ParseAmount(amountText(v))
		case "hard":
			hard := v.Kind() == 't'
			if c.Hard = &hard; !v.IsBool() {
				err = fault.New(fault.Invalid, "hard must be true or false.").At("hard")
			}
		case "marks":
			c.Marks, err = budgetMarks(v)
		case "scope":
			c.Scope, err = budgetScope(v)
		default:
			err = unknownMember("", w.Key)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// unknownMember is the fault of a member that a body cannot have.
func unknownMember(in string, key []byte) error {
	name := in + excerpt.Of(string(key), maxEcho)
	return fault.New(fault.Invalid, "A budget has no member %q.", name).At(name)
}

// budgetText reads a text.
func budgetText(v chat.Value, field string) (*string, error) {
	if !v.IsText() {
		return nil, fault.New(fault.Invalid, "%s must be a string.", field).At(field)
	}
	text := v.Text()
	return &text, nil
}

// amountText returns an amount as it is written; a number is not converted, which would change its last digits.
func amountText(v chat.Value) string {
	if v.IsNumber() {
		return string(v.Raw())
	}
	if v.IsText() {
		return v.Text()
	}
	return ""
}

// budgetMarks reads the percentages at which people are told.
func budgetMarks(v chat.Value) ([]int, error) {
	marks := []int{}
	for w := v.Walk(); v.Kind() == '[' && w.Next(); {
		n, err := strconv.Atoi(string(w.Value.Raw()))
		if err != nil {
			n = -1 // a percentage is a whole number
		}
		marks = append(marks, n)
	}
	if v.Kind() != '[' {
		return nil, fault.New(fault.Invalid, "marks must be an array of percentages, such as [50, 80, 100].").At("marks")
	}
	return marks, nil
}

// budgetScope reads which calls a budget is for.
func budgetScope(v chat.Value) (*account.BudgetScope, error) {
	s := &account.BudgetScope{}
	if v.Kind() != '{' {
		return s, nil // account.Budget.Check says which scopes there are
	}
	for w := v.Walk(); w.Next(); {
		field := "scope." + string(w.Key)
		var to *string
		switch string(w.Key) {
		case "account":
			if s.Account = w.Value.Kind() == 't'; !s.Account {
				return nil, fault.New(fault.Invalid, "%s must be true.", field).At(field)
			}
			continue
		case "key":
			to = &s.Key
		case "tag":
			to = &s.Tag
		case "session":
			to = &s.Session
		default:
			return nil, unknownMember("scope.", w.Key)
		}
		text, err := budgetText(w.Value, field)
		if err != nil {
			return nil, err
		}
		*to = *text
	}
	return s, nil
}

// resumeKey serves POST /v1/budgets/resume: the calls of a key pass again that the runaway watch has paused. One that is not paused
// stays as it is.
func (a *API) resumeKey(x *exchange, r *http.Request) error {
	body, release, err := a.readBody(x, r, maxBudgetBody, 1)
	if err != nil {
		return err
	}
	defer release()
	root, err := chat.Check(body, "key", chat.Keys("key"))
	if err != nil {
		return err
	}
	var id *string
	for w := root.Walk(); w.Next(); {
		if string(w.Key) != "key" {
			name := excerpt.Of(string(w.Key), maxEcho)
			return fault.New(fault.Invalid, "The body has no member %q; it is {\"key\": ID}.", name).At(name)
		}
		if id, err = budgetText(w.Value, "key"); err != nil {
			return err
		}
	}
	if id == nil {
		return fault.New(fault.Invalid, "key is required: the id of a key, as in error.budget.scope of its refusal.").At("key")
	}
	if err := a.line.Admit(x.Header(), x.caller, x.limits()); err != nil {
		return err
	}
	changed, err := a.opts.Budgets.Accounts.ResumeKey(r.Context(), x.byKey(), x.caller.Account.ID, *id)
	if err != nil {
		return err
	}
	return x.encode(runaway.RecordOf(changed))
}
