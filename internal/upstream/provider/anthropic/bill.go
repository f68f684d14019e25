package anthropic

import (
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// The tools that the vendor runs and charges for, by the names of their prices, in alphabetical order.
var tools = [...]string{"code_execution", "web_fetch", "web_search"}

// runs counts a call of a tool that the vendor runs.
func (s *stream) runs(name string) {
	if strings.HasPrefix(name, "tool_search") {
		return // the vendor searches among the caller's tools for nothing
	}
	s.ran++
	for i, tool := range tools { // code_execution has several: bash_code_execution, text_editor_code_execution
		if strings.HasSuffix(name, tool) {
			s.tools[i]++
		}
	}
}

// Bill implements provider.Billed.
//
// The figures at the end of a reply count the calls that the vendor charges for: those that failed are not among them. Until
// then those count that the reply shows. Code is charged for by the time it runs, which the vendor does not tell.
func (s *stream) Bill() provider.Bill {
	u := &s.usage
	b := provider.Bill{Model: provider.Served(s.called, s.model), Calls: s.ran}
	b.Tier, _ = u.Tier.(string)
	if u.Speed == "fast" {
		b.Tier = "fast"
	}
	b.Region, _ = u.Geo.(string)
	shown := s.tools
	if t := u.Served; t != nil {
		told := [...]int{provider.ClampTokens(t.Runs), provider.ClampTokens(t.Fetches), provider.ClampTokens(t.Searches)}
		b.Calls = max(b.Calls, told[0]+told[1]+told[2])
		for i := range told {
			if shown[i] = max(shown[i], told[i]); s.Finished() && i > 0 {
				shown[i] = told[i]
			}
		}
	}
	var c price.Counts
	for i, name := range tools {
		c.Use(name, int64(shown[i])*1000)
	}
	b.Uses = c.Used
	if len(u.Steps) > 0 {
		b.Parts = s.parts(&b)
	}
	return b
}

// beside reports whether the figures of a whole reply do not include the step, although the vendor charges for it: a summary
// of the conversation, and the advice of another model.
func (w *wireStep) beside() bool { return w.Type == "compaction" || w.Type == "advisor_message" }

// parts returns what the steps of the reply consumed, or nil if it took one step. It notes in the bill that another model
// has stood in for the one that was called.
//
// Each step has a prompt of its own, whose length decides its price. Where the steps do not add up to the figures of the
// reply, as where a model declined to answer, those figures are one part.
func (s *stream) parts(b *provider.Bill) []provider.Part {
	var own, more []provider.Part
	var sum claude.Figures
	for i := range s.usage.Steps {
		w := &s.usage.Steps[i]
		if w.Type == "fallback_message" {
			b.Model = provider.Served(s.called, w.Model)
		}
		var f claude.Figures
		w.addTo(&f)
		u, _ := f.Usage()
		p := provider.Part{Model: provider.Served(s.called, w.Model), Usage: u}
		if w.beside() {
			more = append(more, p)
			continue
		}
		w.addTo(&sum)
		own = append(own, p)
	}
	var whole claude.Figures
	s.usage.addTo(&whole)
	if sum != whole {
		u, _ := whole.Usage()
		own = []provider.Part{{Model: b.Model, Usage: u}}
	}
	all := append(own, more...)
	if len(all) < 2 {
		return nil
	}
	think(all, s.usage.Details.Thinking)
	return all
}

// think gives the tokens of thinking, which the vendor counts for the whole reply, to its parts. They cost what others cost.
func think(parts []provider.Part, thinking int) {
	left := provider.ClampTokens(thinking)
	for i := range parts {
		u := &parts[i].Usage
		n := min(left, u.Completion)
		u.Completion, u.Reasoning, left = u.Completion-n, u.Reasoning+n, left-n
	}
}

// served returns the name of the model that is called, if the vendor itself answers: other servers of the dialect name their
// models as they like.
func (a *Adapter) served(call *provider.Call) string {
	if !a.first {
		return ""
	}
	return call.Upstream
}
