package usage

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// Turn is a part of a call that its vendor prices apart: a turn of a conversation with tools on MCP servers, or a step of a
// reply for which the vendor asked a model more than once. The length of its own prompt decides its prices.
type Turn struct {
	Tokens  chat.Usage
	Version string // of its prices; empty: that of the settlement
	Tier    string
	Region  string
	Model   string
	Uses    []price.Use
}

// Counts returns what the turn consumed.
func (t *Turn) Counts() price.Counts {
	c := price.CountsOf(t.Tokens)
	c.Used = t.Uses
	return c
}

// Priced returns the terms of the turn's price. at is when the call began.
func (t *Turn) Priced(at time.Time) price.Terms {
	return price.Terms{At: at.Unix(), Tier: t.Tier, Region: t.Region}
}

// Turns returns the parts of the call that are priced apart, each with the version of its prices. Most calls are one. Their
// costs, each rounded once, add up to the cost of the call.
func (s *Settlement) Turns() []Turn {
	if len(s.Terms.Turns) == 0 {
		t := &s.Terms
		return []Turn{{s.Tokens, t.Version, t.Tier, t.Region, t.Model, t.Uses}}
	}
	turns := make([]Turn, len(s.Terms.Turns))
	for i := range turns {
		turns[i] = s.Terms.Turns[i]
		if turns[i].Version == "" {
			turns[i].Version = s.Terms.Version
		}
	}
	return turns
}

// maxTurns is how many turns a settlement keeps, more than a conversation with tools can have (mcp.max_rounds). A record of the
// journal has room for them.
const maxTurns = 104

// AddTurn adds a turn to the settlement, whose tokens and uses it is not yet a part of. A vendor who tells of more steps than
// there is room for has the last of them priced as one.
func (s *Settlement) AddTurn(t Turn) {
	s.Tokens.Add(t.Tokens)
	addUses(&s.Terms.Uses, t.Uses)
	if n := len(s.Terms.Turns); n == maxTurns {
		last := &s.Terms.Turns[n-1]
		last.Tokens.Add(t.Tokens)
		addUses(&last.Uses, t.Uses)
		return
	}
	s.Terms.Turns = append(s.Terms.Turns, t)
}

// addUses adds uses to others. It does not change what it was given.
func addUses(to *[]price.Use, more []price.Use) {
	if len(more) == 0 {
		return
	}
	sum := price.Counts{Used: slices.Clone(*to)}
	sum.Add(&price.Counts{Used: more})
	*to = sum.Used
}

// PriceTurns computes what the call costs, as Price does, with the prices that entry returns for each of its turns.
func (s *Settlement) PriceTurns(entry func(turn int) *price.Entry, markup price.Factor) {
	if len(s.Terms.Turns) == 0 {
		s.Price(entry(0), markup)
		return
	}
	s.Terms.Markup = markup.Kept()
	var cost, charge price.Nano
	var gave Caching
	var version string
	for i := range s.Terms.Turns {
		t := &s.Terms.Turns[i]
		e := entry(i)
		if i == 0 {
			s.cached(e)
		}
		counts := t.Counts()
		turnCost, turnCharge, ok := e.Charge(&counts, t.Priced(s.At), markup)
		if !ok {
			s.unpriced()
			return
		}
		cost, charge = cost+turnCost, charge+turnCharge
		turnSaved, turnMargin := saved(e, &counts, t.Priced(s.At), markup, turnCost, turnCharge)
		gave.Merge(Caching{Saved: turnSaved, SavedMargin: turnMargin})
		if t.Version = ""; i == 0 {
			version = e.Version()
		} else if e.Version() != version {
			t.Version = e.Version()
		}
	}
	s.Cost, s.Margin, s.Terms.Version = &cost, charge-cost, version
	s.Saved, s.SavedMargin = gave.Saved, gave.SavedMargin
}

// unpriced notes that the price of the call is not known.
func (s *Settlement) unpriced() {
	s.Cost, s.Margin, s.Terms.Version = nil, 0, ""
	s.Saved, s.SavedMargin = 0, 0
	for i := range s.Terms.Turns {
		s.Terms.Turns[i].Version = ""
	}
}

// counts returns the numbers of a usage, in the order in which a turn is written.
func counts(u *chat.Usage) [11]*int {
	return [...]*int{
		&u.Prompt, &u.Cached, &u.Completion, &u.Reasoning, &u.CacheWrite5m, &u.CacheWrite1h, &u.CacheWrite,
		&u.AudioIn, &u.ImageIn, &u.AudioOut, &u.ImageOut,
	}
}

// text writes a turn as a word of the details: its tokens, its terms and its uses, such as
// "1200,0,80|3f2a91bc04de|priority|||web_search:2000". What is empty at the end is left out.
func (t *Turn) text() string {
	var b strings.Builder
	for i, n := range counts(&t.Tokens) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(*n))
	}
	tokens := strings.TrimSuffix(b.String(), ",0")
	for strings.HasSuffix(tokens, ",0") {
		tokens = strings.TrimSuffix(tokens, ",0")
	}
	uses := make([]string, len(t.Uses))
	for i, u := range t.Uses {
		uses[i] = part(u.Name) + ":" + strconv.FormatInt(u.Milli, 10)
	}
	parts := []string{tokens, part(t.Version), part(t.Tier), part(t.Region), part(t.Model), strings.Join(uses, ",")}
	return strings.TrimRight(strings.Join(parts, "|"), "|")
}

// maxPart bounds the words of a turn, in bytes.
const maxPart = 40

// part returns a vendor's word as a part of a turn.
func part(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(word(s[:min(len(s), maxPart)]), "|", "_"), ",", "_")
}

// parseTurn reads what text has written. What a later version adds is left out.
func parseTurn(text string) (t Turn) {
	parts := append(strings.Split(text, "|"), "", "", "", "", "")
	to := counts(&t.Tokens)
	for i, n := range strings.Split(parts[0], ",") {
		if i < len(to) {
			*to[i], _ = strconv.Atoi(n)
		}
	}
	t.Version, t.Tier, t.Region, t.Model = parts[1], parts[2], parts[3], parts[4]
	for use := range strings.SplitSeq(parts[5], ",") {
		at := strings.LastIndexByte(use, ':')
		if n, err := strconv.ParseInt(use[at+1:], 10, 64); at > 0 && err == nil {
			t.Uses = append(t.Uses, price.Use{Name: use[:at], Milli: n})
		}
	}
	return t
}
