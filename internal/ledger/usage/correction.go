package usage

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
)

// Correction changes what a settled call costs. The settlement itself never changes: a correction is an entry of its own. The
// sums of the call's hour and day have the difference.
type Correction struct {
	Number int // 1 is the first of a settlement
	// Cost and Margin are differences to what the call has cost before.
	Cost, Margin price.Nano
	// Saved and SavedMargin are differences, too.
	Saved, SavedMargin price.Nano
	Priced             bool   // the call had no cost before
	Old, New           string // versions of the prices; those of the turns with commas between them, if they are not all the same
	Reason             string
	By                 string // who made it
	MadeAt             time.Time
}

// Fix is a correction of a settlement, to be stored.
type Fix struct {
	Call *Settlement // as it was read, with its earlier corrections
	Correction
}

// ErrCorrected says that a settlement has been corrected since it was read.
var ErrCorrected = errors.New("somebody else has corrected the same calls")

// Correct adds a correction to the sums of its call.
func (s *Sums) Correct(c *Correction) {
	s.Cost += c.Cost
	s.Margin += c.Margin
	s.Saved += c.Saved
	s.SavedMargin += c.SavedMargin
	if c.Priced {
		s.Unpriced--
	}
}

// Corrected is what all corrections of a settlement add up to. Where settlements are read, Cost, Margin and the version of the
// prices include it.
type Corrected struct {
	Times        int
	Cost, Margin price.Nano
	// Saved and SavedMargin are what they have changed of what caches saved.
	Saved, SavedMargin price.Nano
	Priced             bool   // the call was settled without a cost
	Version            string // of the prices that it was settled with
}

// Correct adds corrections to a settlement that was read. version is that of the prices of the last one.
func (s *Settlement) Correct(c Corrected, version string) {
	cost := c.Cost
	if s.Cost != nil {
		cost += *s.Cost
	}
	c.Version = s.versions()
	s.Cost, s.Margin, s.Corrected = &cost, s.Margin+c.Margin, &c
	s.Saved, s.SavedMargin = s.Saved+c.Saved, s.SavedMargin+c.SavedMargin
	list := strings.Split(version, ",")
	s.Terms.Version = list[0]
	for i := range s.Terms.Turns {
		if t := &s.Terms.Turns[i]; i < len(list) && list[i] != list[0] {
			t.Version = list[i]
		} else {
			t.Version = ""
		}
	}
}

// versions returns the version of the prices, or those of all turns if they differ.
func (s *Settlement) versions() string {
	turns := s.Turns()
	list := make([]string, len(turns))
	for i := range turns {
		list[i] = turns[i].Version
	}
	if len(slices.Compact(slices.Clone(list))) == 1 {
		return list[0]
	}
	return strings.Join(list, ",")
}

// Settled returns what the call cost when it was settled; nil if that was not known.
func (s *Settlement) Settled() *price.Nano {
	if s.Corrected == nil {
		return s.Cost
	}
	if s.Corrected.Priced {
		return nil
	}
	cost := *s.Cost - s.Corrected.Cost
	return &cost
}

// Reprice returns the correction that makes a call cost what the prices of its turns say; nil if it costs that already, or if one
// of them has no price. Most calls have one turn. A call that failed has no cost, and stays without. The markup stays that of
// the call, and so does what it had reserved of budgets, beyond which its customer pays nothing.
func (s *Settlement) Reprice(entry func(turn int) *price.Entry) *Correction {
	counts := s.Counts()
	if s.End == EndFailed || s.Cost == nil && counts.Empty() {
		return nil
	}
	again := *s
	again.Terms.Turns = slices.Clone(s.Terms.Turns)
	if again.PriceTurns(entry, s.Terms.Markup); again.Cost == nil {
		return nil
	}
	again.bounded() // the money may long be spent otherwise
	c := Correction{Number: 1, Cost: *again.Cost, Margin: again.Margin, Priced: s.Cost == nil, Old: s.versions(), New: again.versions()}
	c.Saved, c.SavedMargin = again.Saved-s.Saved, again.SavedMargin-s.SavedMargin
	if s.Cost != nil {
		c.Cost, c.Margin = c.Cost-*s.Cost, c.Margin-s.Margin
	}
	if s.Corrected != nil {
		c.Number += s.Corrected.Times
	}
	if c.Cost == 0 && c.Margin == 0 && !c.Priced {
		return nil
	}
	return &c
}
