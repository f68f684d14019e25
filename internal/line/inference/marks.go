package inference

import (
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/caching"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// This file marks what vendors are to keep of prompts, where the request, the account or the model wants that. What to mark
// is decided by package caching, and written by the adapters.

// marking decides about the marks of one turn of a call.
type marking struct {
	memory  *caching.Memory
	account string
	session string
	asked   chat.Switch // by the request, or else by the account
	looking bool        // the call is not made

	turn   *caching.Turn // nil: nothing was decided yet
	reason string        // of the last decision, in words; empty: there was none
	spent  chat.Usage    // the figures of the last attempt
	knows  bool          // there are some
	sent   bool          // the upstream of the last attempt has read the prompt
}

// marksOf returns the marking of a call.
func (l *Line) marksOf(call *Call) marking {
	m := marking{memory: l.marks, account: call.Caller.Account.ID, session: call.Session, asked: call.Caller.Account.AutoCache}
	if call.Request != nil {
		m.asked = call.Request.AutoCache.Or(m.asked)
	}
	return m
}

// wants reports whether prompts for the model are to be marked: the request decides, then the account, then the model.
func (m *marking) wants(model *catalog.Model) bool {
	return m.asked == chat.On || m.asked == chat.Unset && model.AutoCache
}

// decide returns the marks for a request to a target. tokens estimates the whole prompt.
func (m *marking) decide(at *place, req *chat.Request, now time.Time, tokens func() int) caching.Marks {
	m.reason, m.knows, m.sent, m.spent = "", false, false, chat.Usage{}
	marker, ok := at.adapter.(provider.Marker)
	if !ok || !m.wants(at.model) {
		return caching.Marks{}
	}
	least, hour := marker.Keeps(at.upstream)
	if least == 0 {
		return caching.Marks{}
	}
	if req.MarkedByCaller() {
		m.reason = caching.Marked
		return caching.Marks{}
	}
	if o := req.Original; o != nil && o.Thread.Previous != "" {
		m.reason = caching.Threaded
		return caching.Marks{}
	}
	whole := tokens()
	head := m.begin(at.model, req, now)
	size := caching.Sizes{Whole: whole, Least: least, Head: int(int64(whole) * int64(head) / int64(max(1, req.PromptBytes(), head)))}
	choice := m.turn.Weigh(m.hash(at.provider, at.upstream, at.key), pricesOf(at.prices(), now, whole, hour), size)
	m.reason = choice.Reason
	return choice.Marks
}

// place is a target that a request may go to.
type place struct {
	model                   *catalog.Model
	adapter                 provider.Adapter
	provider, upstream, key string
}

// prices returns the prices at the place, or nil.
func (p *place) prices() *price.Series { return p.model.Prices(p.provider, p.upstream) }

// begin notes the call, once, and returns how many bytes its tools and first system messages have.
func (m *marking) begin(model *catalog.Model, req *chat.Request, now time.Time) (head int) {
	h := m.memory.Hash()
	_, _ = h.WriteString(m.account) // a hash never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(model.ID)
	name := caching.Name{Account: h.Sum64()}
	beginning, opening := req.Beginning(&h)
	name.Head = beginning.Print
	name.Conversation = opening
	if m.session != "" {
		_, _ = h.WriteString(m.session)
		name.Conversation = h.Sum64()
	}
	if m.turn != nil {
		return beginning.Bytes
	}
	kind, turns := caching.Opening, 0
	for i := range req.Messages {
		if req.Messages[i].Role == chat.RoleAssistant {
			kind = caching.Talk
			turns++
		}
	}
	if n := len(req.Messages); turns > 0 && req.Messages[n-1].Role == chat.RoleTool {
		kind = caching.Loop
	}
	begin := m.memory.Begin
	if m.looking {
		begin = m.memory.Look
	}
	turn := begin(name, kind, turns, now)
	m.turn = &turn
	return beginning.Bytes
}

// hash returns the hash of texts.
func (m *marking) hash(texts ...string) uint64 {
	h := m.memory.Hash()
	for _, s := range texts {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// What a write costs at least, as a multiple of plain input, for five minutes and for an hour. It is what all Claudes cost; a
// price list that has less, or nothing, is one that leaves writes out.
const leastShort, leastLong = 1.25, 2

// pricesOf returns the prices of a moment for a prompt of so many tokens; zero if those of plain input or of reads are not
// known. Of writes, hour says whether one for an hour can be had.
func pricesOf(s *price.Series, now time.Time, tokens int, hour bool) (p caching.Prices) {
	e := s.At(now.Unix())
	if e == nil {
		return p
	}
	rates := e.RatesFor(int64(tokens))
	if rates[price.Input] == price.Unknown || rates[price.CacheRead] == price.Unknown {
		return p
	}
	p.Input, p.Read = float64(rates[price.Input])/1e6, float64(rates[price.CacheRead])/1e6
	p.Short = max(leastShort*p.Input, float64(rates[price.CacheWrite5m])/1e6)
	if hour {
		p.Long = max(leastLong*p.Input, float64(rates[price.CacheWrite1h])/1e6)
	}
	return p
}

// heard notes the figures of an upstream, of which the last count.
func (m *marking) heard(u chat.Usage) {
	if m.turn != nil {
		m.spent, m.knows, m.sent = u, true, true
	}
}

// settle tells the memory what became of the last attempt.
func (m *marking) settle() {
	if m.turn == nil {
		return
	}
	if !m.knows {
		m.turn.Settle(nil, m.sent)
		return
	}
	u := &m.spent
	f := caching.Figures{Prompt: u.PromptTotal(), Read: u.Cached, Short: u.CacheWrite5m + u.CacheWrite, Long: u.CacheWrite1h}
	m.turn.Settle(&f, true)
}
