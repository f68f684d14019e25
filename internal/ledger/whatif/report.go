package whatif

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Sums is what some calls cost, and what they would have cost.
type Sums struct {
	Calls int64
	Cost  price.Nano // of the calls that have a cost
	Would price.Nano // of the calls that have one in the scenario
	// Unpriced and WouldUnpriced are the calls without a cost, really and in the scenario.
	Unpriced, WouldUnpriced int64
	// OnlyCost is the part of Cost of calls without a cost in the scenario, and OnlyWould the part of Would of calls without a real one.
	// Neither is part of the difference.
	OnlyCost, OnlyWould price.Nano
}

// Difference returns what the scenario costs more, of the calls that have a cost on both sides. It is negative if it costs less.
func (s *Sums) Difference() price.Nano { return (s.Would - s.OnlyWould) - (s.Cost - s.OnlyCost) }

// add adds a call. used says that a call without a cost used something.
func (s *Sums) add(real, would amount, used bool) {
	s.Calls++
	switch {
	case real.known && would.known:
		s.Cost += real.nano
		s.Would += would.nano
	case real.known:
		s.Cost += real.nano
		s.OnlyCost += real.nano
		s.WouldUnpriced++
	case would.known:
		s.Would += would.nano
		s.OnlyWould += would.nano
		s.Unpriced++
	case used:
		s.Unpriced++
		s.WouldUnpriced++
	}
}

// Slot is what calls are added up by. The model is the one that answered, and the day one of UTC. Fields that a table is not
// about are empty.
type Slot struct {
	Account, Key, Model string
	Day                 time.Time
}

// Row is one line of a table.
type Row struct {
	Slot
	Sums
}

// Report is what a replay found.
type Report struct {
	Total                        Sums
	Accounts, Keys, Models, Days []Row
	Rows                         []Row // by all of them together
	Counts                       Counts
	// Until is when the last call that was read began. It is zero if all were read.
	Until time.Time
	// Notes say what the replay cannot know.
	Notes []string
}

// Others is the account, key or model of a row that adds up what had no room in a table.
const Others = "others"

// mostRows bounds each table. What comes beyond it is added up in one row.
const mostRows = 10_000

// tables are the sums of a replay.
type tables struct {
	total Sums
	by    [5]table // accounts, keys, models, days, and all of them
	// last is the slot of the last call and its rows: calls of one account often follow each other.
	last     Slot
	lastRows rows
}

// table has the sums of some calls.
type table struct {
	sums map[Slot]*Sums
	rest *Sums
}

// rows are the sums that a call is added to.
type rows [6]*Sums

func (r rows) add(real, would amount, used bool) {
	for _, s := range r {
		s.add(real, would, used)
	}
}

// of returns the sums that a call belongs to.
func (t *tables) of(s *usage.Settlement) rows {
	slot := Slot{s.AccountID, s.KeyID, s.ModelUsed, usage.DayOf(s.At)}
	if t.lastRows[0] != nil && t.last == slot {
		return t.lastRows
	}
	t.last = slot
	t.lastRows = rows{
		&t.total, t.by[0].at(Slot{Account: slot.Account}), t.by[1].at(Slot{Account: slot.Account, Key: slot.Key}),
		t.by[2].at(Slot{Model: slot.Model}), t.by[3].at(Slot{Day: slot.Day}), t.by[4].at(slot),
	}
	return t.lastRows
}

// at returns the sums of a slot.
func (t *table) at(slot Slot) *Sums {
	s := t.sums[slot]
	switch {
	case s != nil:
		return s
	case t.sums == nil:
		t.sums = map[Slot]*Sums{}
	case len(t.sums) >= mostRows:
		if t.rest == nil {
			t.rest = &Sums{}
		}
		return t.rest
	}
	s = &Sums{}
	t.sums[slot] = s
	return s
}

// sorted returns the rows in their order, and the rest last.
func (t *table) sorted() []Row {
	list := make([]Row, 0, len(t.sums)+1)
	for slot, s := range t.sums {
		list = append(list, Row{slot, *s})
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(a.Day.Compare(b.Day), strings.Compare(a.Account, b.Account), strings.Compare(a.Key, b.Key), strings.Compare(a.Model, b.Model))
	})
	if t.rest != nil {
		list = append(list, Row{Slot{Account: Others, Key: Others, Model: Others}, *t.rest})
	}
	return list
}

func (t *tables) report(c Counts) *Report {
	return &Report{
		Total: t.total, Counts: c,
		Accounts: t.by[0].sorted(), Keys: t.by[1].sorted(), Models: t.by[2].sorted(), Days: t.by[3].sorted(), Rows: t.by[4].sorted(),
	}
}
