package account

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // budgets begin in any time zone, whatever the machine has
	"unicode/utf8"

	"sluice/internal/kit/fault"
)

const (
	// MaxBudgets is how many budgets an account may have.
	MaxBudgets = 50
	// maxBudgetName is how long the name of a budget may be, in characters.
	maxBudgetName = 64
	// BudgetPrefix is how the id of every budget begins, and no other id.
	BudgetPrefix = "bud_"
	// MaxBudget is the largest amount of a budget, in nano-dollars: a million dollars.
	MaxBudget = 1_000_000 * 1_000_000_000
)

// Window is the time that the amount of a budget is for.
type Window string

const (
	Daily     Window = "day"
	Weekly    Window = "week" // from Monday
	Monthly   Window = "month"
	Rolling24 Window = "rolling_24h"
	Rolling30 Window = "rolling_30d"
	Total     Window = "total" // it never ends
)

// Windows are all windows, in the order in which messages list them.
func Windows() []Window { return []Window{Daily, Weekly, Monthly, Rolling24, Rolling30, Total} }

// Rolls reports whether the window moves with the time, rather than ending and beginning again.
func (w Window) Rolls() bool { return w == Rolling24 || w == Rolling30 }

// Span returns how long a window that rolls is, and 0 for others.
func (w Window) Span() time.Duration {
	switch w {
	case Rolling24:
		return 24 * time.Hour
	case Rolling30:
		return 30 * 24 * time.Hour
	default:
		return 0
	}
}

// BudgetScope says which calls of its account a budget is for. Exactly one field is set, or both Session and Key: each session has
// the amount for what it calls with this key.
type BudgetScope struct {
	Account bool   `json:"account,omitempty"` // all of them
	Key     string `json:"key,omitempty"`     // those of one key, by its id
	Tag     string `json:"tag,omitempty"`     // those with a tag, such as team=search
	Session string `json:"session,omitempty"` // "*": those of each session have the amount for themselves
}

// EachSession is the scope of budgets that bound each session apart.
const EachSession = "*"

// Budget is how much the calls of an account may cost in a window of time.
type Budget struct {
	ID       string      `json:"id"`
	Name     string      `json:"name"`
	Amount   int64       `json:"amount"` // nano-dollars
	Window   Window      `json:"window"`
	Timezone string      `json:"timezone,omitempty"` // in which days, weeks and months begin; empty: UTC
	Scope    BudgetScope `json:"scope"`
	// Hard: a call that could cost more than is left is refused. A budget that is not hard only warns.
	Hard bool `json:"hard"`
	// Marks are the percentages at which people are told; nil: DefaultMarks, empty: they are not told.
	Marks     []int     `json:"marks,omitzero"`
	CreatedAt time.Time `json:"created_at"`
}

// DefaultMarks returns the percentages of a budget at which people are told how much is spent.
func DefaultMarks() []int { return []int{50, 80, 100} }

// Zone returns the time zone in which the windows of the budget begin. Check has made sure that it is known.
func (b *Budget) Zone() *time.Location {
	if b.Timezone == "" {
		return time.UTC
	}
	if zone, ok := zones.Load(b.Timezone); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(b.Timezone)
	if err != nil {
		return time.UTC
	}
	zones.Store(b.Timezone, zone)
	return zone
}

// zones are the time zones that were loaded, by name. Loading one reads a file, and every call needs those of its budgets. There are
// a few hundred names at most.
var zones sync.Map

// Period returns the start and the end of the window that a time is in. Both are zero for windows that roll or never end.
func (b *Budget) Period(at time.Time) (from, until time.Time) {
	local := at.In(b.Zone())
	year, month, day := local.Date()
	begin := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, local.Location()) }
	switch b.Window {
	case Daily:
		return begin(year, month, day), begin(year, month, day+1)
	case Weekly:
		monday := day - (int(local.Weekday())+6)%7
		return begin(year, month, monday), begin(year, month, monday+7)
	case Monthly:
		return begin(year, month, 1), begin(year, month+1, 1)
	default:
		return time.Time{}, time.Time{}
	}
}

// Check returns a 400 fault if the budget cannot be one of an account with these keys.
func (b *Budget) Check(keys []Key) error {
	switch {
	case b.Name == "" || utf8.RuneCountInString(b.Name) > maxBudgetName || strings.ContainsFunc(b.Name, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }):
		return fault.New(fault.Invalid, "name must have 1 to %d printable characters.", maxBudgetName).At("name")
	case b.Amount < 0 || b.Amount > MaxBudget:
		return fault.New(fault.Invalid, `amount must be a string of dollars from "0" to "1000000" with at most nine decimals.`).At("amount")
	case !slices.Contains(Windows(), b.Window):
		return fault.New(fault.Invalid, "window must be one of day, week, month, rolling_24h, rolling_30d and total.").At("window")
	case len(b.Marks) > 10 || slices.ContainsFunc(b.Marks, func(m int) bool { return m < 1 || m > 100 }):
		return fault.New(fault.Invalid, "marks must be at most 10 percentages from 1 to 100.").At("marks")
	}
	if b.Timezone != "" {
		if _, err := time.LoadLocation(b.Timezone); err != nil || ofMachine(b.Timezone) {
			return fault.New(fault.Invalid, "timezone must be a name such as Europe/Paris or UTC.").At("timezone")
		}
	}
	return b.Scope.check(keys)
}

// ofMachine reports whether a time zone is, or may be, another one on each machine, or missing on some: then servers would count in
// different days. LoadLocation reads files of the machine first, among them some that are no zones of their own.
func ofMachine(zone string) bool {
	first, _, _ := strings.Cut(zone, "/")
	return slices.Contains([]string{"Local", "localtime", "posixrules", "posix", "right"}, first)
}

func (s BudgetScope) check(keys []Key) error {
	set := 0
	for _, is := range []bool{s.Account, s.Key != "" && s.Session == "", s.Tag != "", s.Session != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fault.New(fault.Invalid, `scope must be one of {"account": true}, {"key": ID}, {"tag": "name=value"}, {"session": "*"} and {"session": "*", "key": ID}.`).At("scope")
	case s.Session != "" && s.Session != EachSession:
		return fault.New(fault.Invalid, `scope.session must be "*": each session gets the amount for itself.`).At("scope.session")
	case s.Tag != "" && !IsTag(s.Tag):
		return fault.New(fault.Invalid, "scope.tag must be a tag such as team=search: a name, an equals sign and a value, of at most %d characters each and without spaces, commas and control characters.", MaxTag).At("scope.tag")
	case s.Key != "" && !slices.ContainsFunc(keys, func(k Key) bool { return k.ID == s.Key }):
		return fault.New(fault.Invalid, "scope.key must be the id of one of the account's keys, such as key_…: the dashboard and \"sluice key list\" show them.").At("scope.key")
	}
	return nil
}

// Budget returns the budget with an id, or nil.
func (a *Account) Budget(id string) *Budget {
	for i := range a.Budgets {
		if a.Budgets[i].ID == id {
			return &a.Budgets[i]
		}
	}
	return nil
}

// NewBudgetID returns the id of a new budget.
func NewBudgetID() string { return BudgetPrefix + randomText(20) }

// sessionBudget returns a new hard budget of each session of a new key, which never begins again.
func sessionBudget(k *Key, amount int64) Budget {
	name := []rune("Sessions of " + k.Name)
	return Budget{
		ID: NewBudgetID(), Name: strings.TrimSpace(string(name[:min(len(name), maxBudgetName)])), Amount: amount, Window: Total, Hard: true,
		Scope: BudgetScope{Session: EachSession, Key: k.ID}, CreatedAt: k.CreatedAt.UTC().Truncate(time.Millisecond),
	}
}

// SetBudget adds a budget to an account, or replaces the one with the same id.
func (as *Accounts) SetBudget(ctx context.Context, actor, ref string, b Budget) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		e.Action, e.Detail = "budget.change", fmt.Sprintf("%s %q", b.ID, b.Name)
		at := slices.IndexFunc(a.Budgets, func(had Budget) bool { return had.ID == b.ID })
		if at < 0 {
			e.Action = "budget.create"
			return a.addBudget(b)
		}
		if err := b.Check(a.Keys); err != nil {
			return err
		}
		a.Budgets = slices.Clone(a.Budgets) // an account that was published never changes
		a.Budgets[at] = b
		return nil
	})
}

// addBudget adds a budget, or returns a fault.
func (a *Account) addBudget(b Budget) error {
	if err := b.Check(a.Keys); err != nil {
		return err
	}
	if len(a.Budgets) >= MaxBudgets {
		return fault.New(fault.Conflict, "An account has at most %d budgets. Delete one first.", MaxBudgets)
	}
	a.Budgets = append(slices.Clone(a.Budgets), b) // an account that was published never changes
	return nil
}

// ChangeBudget changes a budget of an account, but not its scope.
func (as *Accounts) ChangeBudget(ctx context.Context, actor, ref, id string, apply func(*Budget)) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		at := slices.IndexFunc(a.Budgets, func(had Budget) bool { return had.ID == id })
		if at < 0 {
			return NoBudget()
		}
		b := a.Budgets[at]
		apply(&b)
		b.ID, b.Scope, b.CreatedAt = id, a.Budgets[at].Scope, a.Budgets[at].CreatedAt
		// The key of the budget may have been deleted since.
		if err := b.Check(append(slices.Clip(a.Keys), Key{ID: b.Scope.Key})); err != nil {
			return err
		}
		if reflect.DeepEqual(b, a.Budgets[at]) {
			return nil
		}
		a.Budgets = slices.Clone(a.Budgets) // an account that was published never changes
		a.Budgets[at] = b
		e.Action, e.Detail = "budget.change", fmt.Sprintf("%s %q", b.ID, b.Name)
		return nil
	})
}

// NoBudget is the fault of an id that no budget of the account has.
func NoBudget() error {
	return fault.New(fault.NotFound, "There is no such budget. GET /v1/budgets lists those there are.")
}

// DeleteBudget removes a budget of an account.
func (as *Accounts) DeleteBudget(ctx context.Context, actor, ref, id string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		b := a.Budget(id)
		if b == nil {
			return NoBudget()
		}
		e.Action, e.Detail = "budget.delete", fmt.Sprintf("%s %q", b.ID, b.Name)
		a.Budgets = slices.DeleteFunc(slices.Clone(a.Budgets), func(had Budget) bool { return had.ID == id })
		return nil
	})
}

// BudgetsText returns budgets as they are stored; empty if there are none.
func BudgetsText(all []Budget) string {
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // plain fields always encode
	}
	return string(text)
}

// ParseBudgets returns the budgets that BudgetsText has written.
func ParseBudgets(text string) (all []Budget, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read the budgets of an account: %w", err)
	}
	return all, nil
}
