package webui

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
)

// WhatIf is the content of a page that says what past calls would have cost. Owners have one in the dashboard, and staff one in the
// console.
type WhatIf struct {
	Action string // the address of the page
	WhatIfChoice
	// Priced are the models that can be chosen in place of others.
	Priced []string
	// Everybody says that the calls may be of any account, so the form asks for one.
	Everybody bool
	Problem   string // why there is no answer
	// Example says that the visitor has asked nothing, and the answer is that of the first example.
	Example bool
	// Report is nil unless something was asked and answered. Key returns the name of a key.
	Report *whatif.Report
	Key    func(id string) string
}

// WhatIfChoice is what the visitor chose. It is in the address of the page.
type WhatIfChoice struct {
	Days     int
	From, To string // models
	TTL      string
	Batched  string // percent
	Account  string
}

// whatIfDays are the stretches of time that can be chosen.
var whatIfDays = []int{7, 30, 90}

// WhatIfMost is how many calls a page replays at most. A million take some seconds.
const WhatIfMost = 1_000_000

// maxWhatIf bounds each choice, in bytes.
const maxWhatIf = 300

// WhatIfChoiceOf reads what the visitor chose. What makes no sense counts as not chosen: an old link still works.
func WhatIfChoiceOf(r *http.Request) WhatIfChoice {
	text := func(name string) string {
		if v := strings.TrimSpace(r.FormValue(name)); len(v) <= maxWhatIf {
			return v
		}
		return ""
	}
	c := WhatIfChoice{Days: 30, From: text("from"), To: text("to"), TTL: text("ttl"), Batched: text("batched"), Account: text("account")}
	if n, err := strconv.Atoi(text("days")); err == nil && slices.Contains(whatIfDays, n) {
		c.Days = n
	}
	return c
}

// Asked says whether the visitor has chosen anything that would be different.
func (c *WhatIfChoice) Asked() bool { return c.From+c.To+c.TTL+c.Batched != "" }

// FirstExample is what a page without a question may answer.
func FirstExample() WhatIfChoice { return WhatIfChoice{Days: whatIfDays[0], TTL: "none"} }

// Question returns what the visitor asks. It returns a text if something is missing.
func (c *WhatIfChoice) Question(now time.Time) (q whatif.Question, problem string) {
	q = whatif.Question{TTL: c.TTL, Most: WhatIfMost}
	q.From, q.To = usage.DayOf(now).AddDate(0, 0, 1-c.Days), now.UTC()
	if c.From != "" || c.To != "" {
		if c.From == "" || c.To == "" {
			return q, "Choose both models: the one that answered, and the one in its place."
		}
		q.Models = []string{c.From + "=" + c.To}
	}
	if c.Batched != "" {
		n, err := price.Parse(c.Batched)
		if err != nil || n > 100_000_000_000 || n%100_000 != 0 {
			return q, "The share of batches is a number of percent from 0 to 100."
		}
		q.Batched = (n / 100).String()
	}
	return q, ""
}

// whatIfExample is a question that a link asks.
type whatIfExample struct{ text, path string }

// examples returns questions that many ask.
func (v *WhatIf) examples() []whatIfExample {
	return []whatIfExample{
		{"No prompt caches", v.Action + "?days=7&ttl=none"},
		{"Caches that last an hour", v.Action + "?ttl=1h"},
		{"Half of the requests as batches", v.Action + "?batched=50"},
	}
}

// whatIfTable is a table of the answer.
type whatIfTable struct {
	title, head string
	rows        []whatif.Row
	name        func(*whatif.Row) string
	left        int  // rows that are not shown
	folded      bool // the table opens with a click
	word        string
}

// whatIfRows is how many rows of a table a page shows.
const whatIfRows = 50

// tables returns those of the answer. Rows with the largest difference come first, except for days.
func (v *WhatIf) tables() []whatIfTable {
	r := v.Report
	list := []whatIfTable{
		{title: "By model", head: "Model that answered", rows: r.Models, name: func(r *whatif.Row) string { return r.Model }},
		{title: "By key", head: "Key", rows: r.Keys, name: func(r *whatif.Row) string { return v.Key(r.Key) }},
		{title: "By day", head: "Day (UTC)", rows: r.Days, folded: true, name: func(r *whatif.Row) string { return Date(r.Day) }},
	}
	if v.Everybody && v.Account == "" {
		list[1] = whatIfTable{title: "By account", head: "Account", rows: r.Accounts, name: func(r *whatif.Row) string { return r.Account }}
	}
	for i := range list {
		list[i].word = v.word()
	}
	for i := range list[:2] {
		t := &list[i]
		t.rows = slices.Clone(t.rows)
		slices.SortStableFunc(t.rows, func(a, b whatif.Row) int {
			return cmp.Or(cmp.Compare(size(b.Difference()), size(a.Difference())), cmp.Compare(b.Cost, a.Cost))
		})
		if n := len(t.rows); n > whatIfRows {
			t.rows, t.left = t.rows[:whatIfRows], n-whatIfRows
		}
	}
	return list
}

// word returns what the page calls an amount. Customers read list prices everywhere.
func (v *WhatIf) word() string {
	if v.Everybody {
		return "Cost"
	}
	return "List price"
}

// whatIfSum returns a sum for people. If there is no price for anything in it, it is not nothing but unknown.
func whatIfSum(n price.Nano, unpriced int64) string {
	if n == 0 && unpriced > 0 {
		return "no price"
	}
	return Total(n)
}

func size(n price.Nano) price.Nano { return max(n, -n) }

// chart returns the answer by day: what calls cost, and what they would have cost. Today has hardly begun, so it is left out unless
// there is nothing else.
func (v *WhatIf) chart(now time.Time) *Chart {
	c := &Chart{
		Lines: true, Format: Total[int64], Axis: Dollars[int64],
		Label: v.word() + " by day, real and in the scenario. The table below has the figures.",
	}
	cost := ChartSeries{Name: v.word(), Class: "c0", Total: Total(v.Report.Total.Cost)}
	would := ChartSeries{Name: "Would have cost", Class: "c3", Total: Total(v.Report.Total.Would)}
	rows, today := v.Report.Days, usage.DayOf(now)
	end := today.AddDate(0, 0, -1)
	if len(rows) > 0 && !rows[0].Day.Before(today) {
		end = today
	}
	for day := today.AddDate(0, 0, 1-v.Days); !day.After(end); day = day.AddDate(0, 0, 1) {
		sums := whatif.Sums{}
		for len(rows) > 0 && !rows[0].Day.After(day) {
			sums, rows = rows[0].Sums, rows[1:]
		}
		c.Steps = append(c.Steps, ChartStep{At: day, Length: 24 * time.Hour})
		cost.Values, would.Values = append(cost.Values, int64(sums.Cost)), append(would.Values, int64(sums.Would))
	}
	c.Series = []ChartSeries{cost, would}
	return c
}

// signed returns a difference with its sign, in one of the forms of money.
func signed(n price.Nano, form func(price.Nano) string) string {
	if n > 0 {
		return "+" + form(n)
	}
	return form(n)
}

// percent returns a difference with its sign in percent of a cost, as it follows a word, or nothing if there is none.
func percent(s *whatif.Sums) string {
	of := s.Cost - s.OnlyCost
	if of == 0 {
		return ""
	}
	of100, digits := 100*float64(s.Difference())/float64(of), 1
	if max(of100, -of100) >= 10 {
		digits = 0
	}
	part := strconv.FormatFloat(of100, 'f', digits, 64) + "%"
	if s.Difference() > 0 {
		part = "+" + part
	}
	return ", " + part
}
