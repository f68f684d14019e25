package sandbox

import (
	"fmt"
	"strings"

	"sluice/internal/chat"
)

// depth is how many parts of the trace an effort shows.
var depth = map[chat.Effort]int{chat.EffortMinimal: 1, chat.EffortLow: 2, chat.EffortMedium: 3, chat.EffortHigh: 5}

// reasoning is the model's account of what it does: how it took the request, what it read, how it got
// there, and, with more effort, what it passed over and how it checked.
func (p *prompt) reasoning(r reply) string {
	if depth[p.request.ReasoningEffort] == 0 {
		return ""
	}
	doing, how := "This is a request for "+r.answer.skill+".", r.answer.trace
	if len(r.calls) > 0 {
		doing, how = "The request asks for the tool "+r.calls[0].Name+".", ""
		for _, c := range r.calls {
			how += "The arguments of " + c.Name + " come out as " + c.Arguments + ". "
		}
	}
	var tried []string
	for _, skill := range skills {
		if skill.name == r.answer.skill {
			break
		}
		tried = append(tried, skill.name)
	}
	trace := []string{
		doing,
		fmt.Sprintf("The message has %d words, after %d others, with %d tools at hand.", len(strings.Fields(p.text)), len(p.request.Messages)-1, len(p.tools)),
		strings.TrimSpace(how),
		"Of what else could be done, this was weighed first: " + strings.Join(append(tried, "asking back"), ", ") + ".",
		"The same request would lead here again, since nothing but the request is looked at. That settles it.",
	}
	return strings.Join(trace[:depth[p.request.ReasoningEffort]], " ") + "\n"
}
