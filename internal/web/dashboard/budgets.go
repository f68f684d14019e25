package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// budgetsPath is the path of the page, and raisePath that of the page that refused calls of a session lead to.
const (
	budgetsPath = home + "/budgets"
	raisePath   = budgetsPath + "/raise"
)

// Budgets knows how the budgets of accounts stand.
type Budgets interface {
	// Statuses returns how budgets stand now, in the order of the dues.
	Statuses(ctx context.Context, a *account.Account, dues []budget.Due) ([]budget.Status, error)
	// Changed makes the next call see what was added to a count.
	Changed(accountID, count string)
}

// budgetsView is the data of the budgets page.
type budgetsView struct {
	Budgets []shownBudget
	// Watch is what is done about programs that run away, and which keys are paused. Choice is the form of that.
	Watch  runaway.Record
	Choice budgetForm
	// Left is how many budgets may still be created.
	Left int
	// Keys are the keys that a budget can be for.
	Keys []account.Key
	// Dialog names the dialog that is open: "new", "edit", "delete", or "" for none. Budget is the budget that it is about,
	// or nil, and Form what it shows.
	Dialog string
	Budget *shownBudget
	Form   budgetForm
}

// shownBudget is a budget and how it stands.
type shownBudget struct {
	budget.Status
	// Calls says in words which calls count.
	Calls string
}

// budgetForm is the form of a budget as it was typed, by the names of budgetFields.
type budgetForm struct {
	url.Values
	Problems problems
}

// budgetFields are the fields of the form that can be wrong, by the names of their faults.
var budgetFields = []string{"name", "amount", "window", "timezone", "scope", "scope.key", "scope.tag", "scope.session", "marks"}

// The choices of the form for which calls a budget is.
const (
	forAccount = "account"
	forKey     = "key"
	forTag     = "tag"
	forSession = "session"
)

// noMarks is what people type who do not want to be told how much of a budget is spent.
const noMarks = "none"

// newBudgetForm returns the form of a new budget.
func newBudgetForm() budgetForm {
	return budgetForm{Values: url.Values{
		"window": {string(account.Monthly)}, "timezone": {"UTC"}, "scope": {forAccount}, "hard": {"yes"}, "marks": {marksText(account.DefaultMarks())},
	}}
}

// budgetFormOf returns the form of a budget. Its scope never changes: what was spent of it would be that of other calls.
func budgetFormOf(b *account.Budget) budgetForm {
	f := newBudgetForm()
	f.Set("name", b.Name)
	f.Set("amount", price.Nano(b.Amount).String())
	f.Set("window", string(b.Window))
	if b.Timezone != "" {
		f.Set("timezone", b.Timezone)
	}
	if !b.Hard {
		f.Set("hard", "no")
	}
	if b.Marks != nil {
		f.Set("marks", marksText(b.Marks))
	}
	return f
}

// marksText returns marks as they are typed.
func marksText(marks []int) string {
	if len(marks) == 0 {
		return noMarks
	}
	list := make([]string, len(marks))
	for i, m := range marks {
		list[i] = strconv.Itoa(m)
	}
	return strings.Join(list, ", ")
}

// fill sets what the form says of a budget, except its scope, or returns all that is wrong with it.
func (f *budgetForm) fill(b *account.Budget) error {
	amount, wrongAmount := amountOf(f.Values, "amount")
	marks, wrongMarks := marksOf(f.Get("marks"))
	b.Name, b.Amount, b.Window, b.Timezone, b.Hard = strings.TrimSpace(f.Get("name")), int64(amount), account.Window(f.Get("window")), strings.TrimSpace(f.Get("timezone")), f.Get("hard") != "no"
	b.Marks = marks
	// Name and time zone are checked one by one: Check stops at the first mistake.
	good := account.Budget{Name: "x", Window: account.Windows()[0], Scope: account.BudgetScope{Account: true}}
	name, zone := good, good
	name.Name, zone.Timezone = b.Name, b.Timezone
	return errors.Join(name.Check(nil), wrongAmount, zone.Check(nil), wrongMarks)
}

// amountOf reads a field with an amount of dollars.
func amountOf(form url.Values, field string) (price.Nano, error) {
	amount, err := price.Parse(strings.TrimPrefix(strings.TrimSpace(form.Get(field)), "$"))
	if err != nil || int64(amount) > account.MaxBudget {
		return 0, fault.New(fault.Invalid, "enter an amount in dollars from 0 to 1000000, such as 25 or 2.50").At(field)
	}
	return amount, nil
}

// marksOf reads marks.
func marksOf(text string) ([]int, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '%' })
	if len(words) == 0 {
		return nil, nil // the usual ones
	}
	if len(words) == 1 && strings.EqualFold(words[0], noMarks) {
		return []int{}, nil
	}
	marks := make([]int, len(words))
	for i, word := range words {
		var err error
		if marks[i], err = strconv.Atoi(word); err != nil || marks[i] < 1 || marks[i] > 100 || len(words) > 10 {
			return nil, fault.New(fault.Invalid, "enter up to 10 percentages from 1 to 100, such as 50, 80, 100, or none").At("marks")
		}
	}
	slices.Sort(marks)
	return slices.Compact(marks), nil
}

// scope returns which calls the form asks for, or a fault.
func (f *budgetForm) scope(a *account.Account) (account.BudgetScope, error) {
	switch f.Get("scope") {
	case forAccount:
		return account.BudgetScope{Account: true}, nil
	case forKey:
		if id := f.Get("scope.key"); a.Key(id) != nil {
			return account.BudgetScope{Key: id}, nil
		}
		return account.BudgetScope{}, fault.New(fault.Invalid, "choose one of your keys").At("scope.key")
	case forTag:
		if tag := strings.TrimSpace(f.Get("scope.tag")); account.IsTag(tag) {
			return account.BudgetScope{Tag: tag}, nil
		}
		return account.BudgetScope{}, fault.New(fault.Invalid, "enter a name, an equals sign and a value, such as team=search, without spaces and commas").At("scope.tag")
	case forSession:
		id := f.Get("scope.session")
		if id != "" && a.Key(id) == nil {
			return account.BudgetScope{}, fault.New(fault.Invalid, "choose one of your keys, or all of them").At("scope.session")
		}
		return account.BudgetScope{Session: account.EachSession, Key: id}, nil
	}
	return account.BudgetScope{}, fault.New(fault.Invalid, "choose which requests count").At("scope")
}

// budgetsPage shows the page, with the dialog that its address asks for.
func (d *Dashboard) budgetsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	q := r.URL.Query()
	for _, name := range []string{"new", "edit", "delete"} {
		if q.Has(name) {
			f := newBudgetForm()
			if k := v.Key(q.Get("sessions")); k != nil { // the page of keys links to it
				f.Set("scope", forSession)
				f.Set("scope.session", k.ID)
				f.Set("window", string(account.Total))
			}
			return d.showBudgets(w, r, v, http.StatusOK, budgetsView{Dialog: name, Form: f}, q.Get(name))
		}
	}
	return d.showBudgets(w, r, v, http.StatusOK, budgetsView{}, "")
}

// showBudgets renders the page. id is the budget that a dialog is about; if it is gone, the page is that of a tab that was left
// open. The account is read from the database, because the visitor's snapshot may be older than the change that was just made.
func (d *Dashboard) showBudgets(w http.ResponseWriter, r *http.Request, v *visitor, status int, view budgetsView, id string) error {
	present, err := d.Accounts.Find(r.Context(), v.ID)
	if err != nil {
		return err
	}
	dues := make([]budget.Due, len(present.Budgets))
	for i := range present.Budgets {
		dues[i].Budget = &present.Budgets[i]
	}
	if view.Budgets, err = d.shownBudgets(r.Context(), present, dues); err != nil {
		return err
	}
	view.Left, view.Keys, view.Watch = account.MaxBudgets-len(present.Budgets), present.Keys, runaway.RecordOf(present)
	if view.Choice.Values == nil {
		view.Choice.Values = url.Values{"on_runaway": {string(view.Watch.OnRunaway)}, "factor": {strconv.Itoa(view.Watch.Factor)}}
	}
	if view.Dialog == "edit" || view.Dialog == "delete" {
		at := slices.IndexFunc(view.Budgets, func(b shownBudget) bool { return b.ID == id })
		if at < 0 {
			return d.seeOther(w, r, budgetsPath, "budget-gone")
		}
		view.Budget = &view.Budgets[at]
		if view.Form.Problems == nil {
			view.Form = budgetFormOf(view.Budget.Budget)
		}
	}
	return d.ui.Render(w, r, status, budgetsPage(d.frame(w, r, v, "Budgets"), &view))
}

// shownBudgets returns how budgets stand. What calls have cost that have just ended is among it.
func (d *Dashboard) shownBudgets(ctx context.Context, a *account.Account, dues []budget.Due) ([]shownBudget, error) {
	if len(dues) == 0 {
		return nil, nil
	}
	d.Flush(ctx)
	all, err := d.Budgets.Statuses(ctx, a, dues)
	if err != nil {
		return nil, err
	}
	list := make([]shownBudget, len(all))
	for i := range all {
		list[i] = shownBudget{all[i], scopeText(a, all[i].Scope)}
	}
	return list, nil
}

// createBudget creates a budget.
func (d *Dashboard) createBudget(w http.ResponseWriter, r *http.Request, v *visitor) error {
	f := budgetForm{Values: r.Form}
	b := account.Budget{ID: account.NewBudgetID(), CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}
	err := f.fill(&b)
	var wrongScope error
	b.Scope, wrongScope = f.scope(v.Account)
	if err = errors.Join(err, wrongScope); err == nil {
		_, err = d.Accounts.SetBudget(r.Context(), actor, v.ID, b)
	}
	if err != nil {
		return d.budgetRefused(w, r, v, budgetsView{Dialog: "new", Form: f}, "", err)
	}
	return d.seeOther(w, r, budgetsPath, "budget-created")
}

// budgetRefused shows the dialog again, with what was wrong.
func (d *Dashboard) budgetRefused(w http.ResponseWriter, r *http.Request, v *visitor, view budgetsView, id string, err error) error {
	return again(err, &view.Form.Problems, func(status int) error {
		return d.showBudgets(w, r, v, status, view, id)
	}, budgetFields...)
}

// changeBudget changes a budget.
func (d *Dashboard) changeBudget(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id, f := r.PathValue("id"), budgetForm{Values: r.Form}
	var typed account.Budget
	err := f.fill(&typed)
	if err == nil {
		_, err = d.Accounts.ChangeBudget(r.Context(), actor, v.ID, id, func(b *account.Budget) {
			b.Name, b.Amount, b.Window, b.Timezone, b.Hard, b.Marks = typed.Name, typed.Amount, typed.Window, typed.Timezone, typed.Hard, typed.Marks
		})
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return d.seeOther(w, r, budgetsPath, "budget-gone")
	case err != nil:
		return d.budgetRefused(w, r, v, budgetsView{Dialog: "edit", Form: f}, id, err)
	}
	return d.seeOther(w, r, budgetsPath, "budget-changed")
}

// deleteBudget deletes a budget.
func (d *Dashboard) deleteBudget(w http.ResponseWriter, r *http.Request, v *visitor) error {
	_, err := d.Accounts.DeleteBudget(r.Context(), actor, v.ID, r.PathValue("id"))
	if fault.Is(err, fault.NotFound) {
		return d.seeOther(w, r, budgetsPath, "budget-gone")
	}
	if err != nil {
		return err
	}
	return d.seeOther(w, r, budgetsPath, "budget-deleted")
}

// watchBudgets changes what is done about programs that run away.
func (d *Dashboard) watchBudgets(w http.ResponseWriter, r *http.Request, v *visitor) error {
	on := account.OnRunaway(r.FormValue("on_runaway"))
	factor, err := strconv.Atoi(strings.TrimSpace(r.FormValue("factor")))
	if err != nil {
		err = fault.New(fault.Invalid, "enter a whole number, such as 5").At("factor")
	} else {
		_, err = d.Accounts.SetRunaway(r.Context(), actor, v.ID, &on, &factor)
	}
	if err != nil {
		view := budgetsView{Choice: budgetForm{Values: r.Form}}
		return again(err, &view.Choice.Problems, func(status int) error {
			return d.showBudgets(w, r, v, status, view, "")
		}, "on_runaway", "factor")
	}
	return d.seeOther(w, r, budgetsPath, "watch-changed")
}

// resumeKey lets the calls of a paused key pass again. One that somebody has resumed already, or that was deleted, is as the owner wants
// it.
func (d *Dashboard) resumeKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	_, err := d.Accounts.ResumeKey(r.Context(), actor, v.ID, r.FormValue("key"))
	if fault.Is(err, fault.NotFound) {
		return d.seeOther(w, r, budgetsPath, "key-gone")
	}
	if err != nil {
		return err
	}
	return d.seeOther(w, r, budgetsPath, "key-resumed")
}

// onRunawayTexts say what is done about programs that run away.
var onRunawayTexts = map[account.OnRunaway]string{
	account.Alert: "Notify me by e-mail and webhook", account.Pause: "Notify me, and pause the key until I resume it", account.Off: "Do nothing",
}

// pausedName returns how a page names a key that is paused.
func pausedName(p *runaway.Paused) string {
	if p.Name == nil {
		return "The master key"
	}
	return "The key " + *p.Name
}

// raiseView is the data of the page that adds to the budget of a session.
type raiseView struct {
	shownBudget
	// By is the amount as it was typed, if the form is shown again.
	By       string
	Problems problems
}

// raises are the amounts that the page offers, in dollars.
var raises = []string{"5", "10", "25"}

// due returns the budget that a count names, or a 404. The count of a budget of each session names the session, too.
func (v *visitor) due(count string) (budget.Due, error) {
	id, session, _ := strings.Cut(count, "/")
	b := v.Budget(id)
	if b == nil || len(session) > usage.MaxSession || (session == "") != (b.Scope.Session == "") {
		return budget.Due{}, fault.New(fault.NotFound, "There is no such budget. It may have been deleted, or belong to another account than the one that you are signed in to.")
	}
	return budget.Due{Budget: b, Session: session}, nil
}

// raisePage shows how the budget stands that has refused a call, and a form that adds to it.
func (d *Dashboard) raisePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	due, err := v.due(r.FormValue("count"))
	if err != nil {
		return err
	}
	return d.showRaise(w, r, v, http.StatusOK, due, raiseView{})
}

// showRaise renders the page.
func (d *Dashboard) showRaise(w http.ResponseWriter, r *http.Request, v *visitor, status int, due budget.Due, view raiseView) error {
	list, err := d.shownBudgets(r.Context(), v.Account, []budget.Due{due})
	if err != nil {
		return err
	}
	view.shownBudget = list[0]
	return d.ui.Render(w, r, status, raisePage(d.frame(w, r, v, "Raise a budget"), &view))
}

// raise adds to the budget of a session. The log has it first: nothing is added that it does not know of.
func (d *Dashboard) raise(w http.ResponseWriter, r *http.Request, v *visitor) error {
	due, err := v.due(r.FormValue("count"))
	if err != nil {
		return err
	}
	by, err := amountOf(r.Form, "by")
	switch {
	case err != nil:
	case due.Session == "":
		err = fault.New(fault.Invalid, "Only the budget of a session can be raised. Change the amount of this one.")
	case by == 0:
		err = fault.New(fault.Invalid, "enter more than 0").At("by")
	default:
		_, err = d.Accounts.Record(r.Context(), actor, v.ID, "budget.raise", fmt.Sprintf("%s %q by $%s for session %s", due.ID, due.Name, by, due.Session))
	}
	if err != nil {
		view := raiseView{By: r.FormValue("by")}
		return again(err, &view.Problems, func(status int) error {
			return d.showRaise(w, r, v, status, due, view)
		}, "by")
	}
	if _, err := d.Raise(r.Context(), v.ID, due.Count(), by); err != nil {
		return err
	}
	d.Budgets.Changed(v.ID, due.Count())
	return d.seeOther(w, r, raiseAt(due), "budget-raised")
}

// raiseAt returns the address of the page that adds to a budget.
func raiseAt(due budget.Due) string {
	return raisePath + "?" + url.Values{"count": {due.Count()}}.Encode()
}

// scopeText says which calls of an account count.
func scopeText(a *account.Account, s account.BudgetScope) string {
	key := "a key that was deleted"
	if k := a.Key(s.Key); k != nil && k.Master {
		key = "the master key"
	} else if k != nil {
		key = "the key " + k.Name
	}
	switch {
	case s.Session != "" && s.Key != "":
		return "Each session has the amount for its requests with " + key
	case s.Key != "":
		return "Requests with " + key
	case s.Tag != "":
		return "Requests with the tag " + s.Tag
	case s.Session != "":
		return "Each session separately"
	}
	return "All requests of the account"
}

// windowTexts say what the windows of budgets are.
var windowTexts = map[account.Window]string{
	account.Daily: "Every day", account.Weekly: "Every week, from Monday", account.Monthly: "Every month",
	account.Rolling24: "The last 24 hours", account.Rolling30: "The last 30 days", account.Total: "All time",
}

// windowText says what time the amount of a budget is for.
func windowText(b *account.Budget) string {
	text := windowTexts[b.Window]
	if b.Timezone != "" && b.Timezone != "UTC" && !b.Window.Rolls() && b.Window != account.Total {
		text += ", in " + b.Timezone
	}
	return text
}

// resets returns when a budget of another time zone begins again, in that zone; empty: it is one of UTC, which pages show in the
// reader's zone.
func (b *shownBudget) resets() string {
	if b.Timezone == "" || b.Timezone == "UTC" {
		return ""
	}
	zone, err := time.LoadLocation(b.Timezone)
	if err != nil { // it was checked when it was stored
		return ""
	}
	return b.ResetsAt.In(zone).Format("2 Jan 2006 15:04") + " in " + b.Timezone
}

// each reports whether every session has the amount for itself, and the budget is none of a certain session. Then it has no figures.
func (b *shownBudget) each() bool { return b.Scope.Session != "" && b.Session == "" }

// used returns how much of the amount is not left, in percent, rounded down.
func (b *shownBudget) used() int64 {
	if b.Amount <= 0 {
		return 100
	}
	return int64(b.Spent+b.Reserved) * 100 / int64(b.Amount)
}

// tone returns the colour of a budget.
func (b *shownBudget) tone() string {
	switch used := b.used(); {
	case used >= 100:
		return "bad"
	case used > 80:
		return "warn"
	}
	return ""
}

// state says how much is used, for people who do not see the colour, too.
func (b *shownBudget) state() string {
	switch used := b.used(); {
	case used >= 100 && b.Spent > b.Amount:
		return "overspent"
	case used >= 100:
		return "used up"
	default:
		return strconv.FormatInt(used, 10) + "% used"
	}
}

// stacked returns the parts of the bar in a drawing that is 1000 wide: what is spent, and where the part that is reserved begins
// and how wide it is. Nothing is wider than the bar, and what is there can be seen.
func (b *shownBudget) stacked() (spent, reserved stretch) {
	whole := float64(max(1, b.Amount, b.Spent+b.Reserved))
	part := func(n price.Nano) float64 {
		if n <= 0 {
			return 0
		}
		return max(6, 1000*float64(n)/whole)
	}
	text := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	first, second := min(1000, part(b.Spent)), part(b.Reserved)
	return stretch{"0", text(first)}, stretch{text(min(first, 1000-second)), text(second)}
}

// sums says how the budget stands, in a sentence.
func (b *shownBudget) sums() string {
	return "Spent " + webui.Dollars(b.Spent) + ", reserved " + webui.Dollars(b.Reserved) + ", left " + webui.Dollars(b.Left) + " of " + webui.Dollars(b.Amount)
}

// moneyInput returns the attributes of a field for an amount of dollars.
func moneyInput() templ.Attributes {
	return templ.Attributes{"inputmode": "decimal", "autocomplete": "off", "required": true, "maxlength": "20"}
}

// firstInput returns the attributes of the field for a budget's name. The cursor is there unless another field is wrong.
func firstInput(p problems) templ.Attributes {
	a := named(p)
	a["maxlength"] = "64"
	return a
}
