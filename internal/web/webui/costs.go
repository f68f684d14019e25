package webui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/costs"
)

// Costs is the data of a page that takes a cost apart: by day, by model and by call, with the formula of each. Customers and staff
// see the same page; staff sees the margin as well.
type Costs struct {
	*costs.Reply
	From, To time.Time
	Path     string     // of the page
	Query    url.Values // what it was asked for
	Request  string     // the address of the page of a request, without the id
	File     string     // the address of the same as CSV, without the query; empty: there is none
	KeyName  func(id string) string
	Staff    bool
	Chart    *Chart // by day; nil: there is none
}

// CostPage is how many calls a page of costs shows.
const CostPage = 25

// foldedFrom is how many days a page of costs lists at most without folding them.
const foldedFrom = 10

// at returns the address of the page with changes, which are pairs of a name and a value. An empty value is left out.
func (c *Costs) at(changes ...string) string { return c.address(c.Path, changes...) }

// At is at, for what a page adds.
func (c *Costs) At(changes ...string) string { return c.at(changes...) }

// Whole reports whether the page is about all requests of its time, and that is more than a day.
func (c *Costs) Whole() bool { return !c.one() && len(c.filters()) == 0 }

func (c *Costs) address(path string, changes ...string) string {
	q := url.Values{}
	for _, name := range []string{"from", "to", "day", "month", "key", "model", "served", "outcome"} {
		if v := c.Query.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	for i := 0; i+1 < len(changes); i += 2 {
		q.Del(changes[i])
		if changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// DayName writes a day as all pages do.
func DayName(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return Date(at)
}

// dayAt returns the address of the part of the page that a day is.
func (c *Costs) dayAt(day string) string {
	from, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return c.at()
	}
	to := from.AddDate(0, 0, 1)
	if !from.Before(c.From) && !to.After(c.To) {
		return c.at("from", "", "to", "", "month", "", "day", day)
	}
	if from.Before(c.From) {
		from = c.From
	}
	if to.After(c.To) {
		to = c.To
	}
	return c.at("from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano), "month", "", "day", "")
}

// one says whether only one day is shown.
func (c *Costs) one() bool { return c.To.Sub(c.From) <= 24*time.Hour }

// span returns the time of the page for people. The end is the last day, not the first that is left out.
func (c *Costs) span() string {
	last := c.To.Add(-time.Millisecond)
	if c.From.Equal(c.From.Truncate(24*time.Hour)) && c.To.Equal(c.To.Truncate(24*time.Hour)) {
		if c.one() {
			return Date(c.From)
		}
		return Date(c.From) + " – " + Date(last)
	}
	return DateTime(c.From) + " – " + DateTime(c.To)
}

// filters returns what the page is narrowed to, for people, with the address without it.
func (c *Costs) filters() (list [][2]string) {
	for _, f := range [][2]string{{"served", "answered by"}, {"model", "model"}, {"key", "key"}, {"outcome", "outcome"}} {
		v := c.Query.Get(f[0])
		if v == "" {
			continue
		}
		if f[0] == "key" {
			v = c.KeyName(v)
		}
		list = append(list, [2]string{f[1] + " " + v, c.at(f[0], "")})
	}
	return list
}

// usd returns an exact amount for people.
func usd(n json.Number) string {
	if rest, negative := strings.CutPrefix(n.String(), "-"); negative {
		return "-$" + rest
	}
	return "$" + n.String()
}

// unknown says whether there is no price for anything in a sum: its cost and margin are not nothing.
func unknown(s *costs.SumsReply) bool { return s.Unpriced > 0 && s.Cost == "0" }

// marginOf returns the margin of a sum for people.
func marginOf(s *costs.SumsReply) string {
	if unknown(s) {
		return "–"
	}
	return amountOf(s.Margin)
}

// usdOf returns an amount that may be missing.
func usdOf(n *json.Number) string {
	if n == nil {
		return "–"
	}
	return usd(*n)
}

// amountOf returns an amount that may be missing, rounded.
func amountOf(n *json.Number) string {
	if n == nil {
		return "–"
	}
	return Amount(*n)
}

// word returns what the page calls an amount. Customers pay for their plan, and read list prices everywhere.
func (c *Costs) word() string {
	if c.Staff {
		return "Cost"
	}
	return "List price"
}

// costlessTitle says which requests are without a cost. Pages that count the requests themselves, and not their stored sums, say
// "with no price": those leave out requests that used nothing.
const costlessTitle = "What they used has no price, or they failed before they used anything."

// sumCost returns a sum for people. If there is no price for anything in it, it is not nothing but unknown.
func sumCost(s *costs.SumsReply) string {
	if unknown(s) {
		return "no price"
	}
	return Amount(s.Cost)
}

// sumExact is what sumCost has rounded, or nothing if there is no price for anything.
func sumExact(s *costs.SumsReply) string {
	if unknown(s) {
		return ""
	}
	return usd(s.Cost)
}

// callCost returns what a call costs, for people.
func callCost(c *costs.CallReply) string {
	switch {
	case c.Cost != nil:
		return Amount(*c.Cost)
	case c.Unpriced:
		return "no price"
	default:
		return "–"
	}
}

// callExact is what callCost has rounded, or nothing if the call has no cost.
func callExact(c *costs.CallReply) string {
	if c.Cost == nil {
		return ""
	}
	return usd(*c.Cost)
}

// byCost returns the models of the page, the dearest first.
func (c *Costs) byCost() []costs.RowReply {
	return slices.SortedStableFunc(slices.Values(c.Models), func(a, b costs.RowReply) int { return cmp.Compare(nanoOf(b.Cost), nanoOf(a.Cost)) })
}

// rateText returns the price of a line, with what it is for.
func rateText(l *costs.LineReply) string {
	if l.Per > 1 {
		return usd(l.Rate) + " per million"
	}
	return usd(l.Rate) + " each"
}

// lineName returns what a line counts, for people.
func lineName(l *costs.LineReply) string {
	name := strings.ReplaceAll(l.Name, "_", " ")
	if l.Turn > 0 {
		return fmt.Sprintf("Turn %d: %s", l.Turn, name)
	}
	return Sentence(name)
}

// countedBy are the sources of counts, for people.
var countedBy = map[string]string{"vendor": "the provider", "ours": "us", "estimate": "estimate"}

// callTime returns the time of a call.
func callTime(c *costs.CallReply) time.Time {
	at, _ := time.Parse(time.RFC3339, c.At) // it was written in this form
	return at
}

// correctionText says what a correction has changed.
func correctionText(f *costs.CorrectionReply) string {
	text := "Corrected on " + Date(time.Unix(f.At, 0)) + " by " + usd(f.Cost)
	if f.Margin != nil && *f.Margin != "0" {
		text += ", margin by " + usd(*f.Margin)
	}
	text += ": prices " + f.New
	switch {
	case f.Priced:
		text += ", none before."
	case f.Old != "":
		text += " instead of " + f.Old + "."
	default:
		text += "."
	}
	if f.Reason != "" {
		text += " " + f.Reason
	}
	return text
}

// countText formats a count of tokens, calls or seconds.
func countText(n json.Number) string {
	if v, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return Number(v)
	}
	return n.String()
}

// unix returns a time from Unix seconds.
func unix(s int64) time.Time { return time.Unix(s, 0).UTC() }
