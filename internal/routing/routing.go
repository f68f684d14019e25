// Package routing decides which model answers a request, and who is asked for it.
//
// A model of its own answers for itself. For service/auto a Router chooses: first come the conditions
// that leave no choice, then a score. Routes know where each model is served and how well those places
// are; a Plan is the order in which one request asks them.
package routing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

// Router chooses models. It remembers conversations, so there is one for the life of the process.
type Router struct {
	conversations *conversations
	now           func() time.Time
}

// NewRouter returns a router that has seen no conversation.
func NewRouter() *Router { return &Router{conversations: newConversations(), now: time.Now} }

// Asked is a request for a model.
type Asked struct {
	Catalog   *catalog.Catalog
	Routes    *Routes
	Model     *catalog.Model
	AccountID string
	Plan      account.Plan
	Staff     bool   // may call what has no tier yet
	Scorer    Scorer // nil: an Estimate at the middle of its dial
	Request   *chat.Request
}

// Choice is which model answers, and why.
type Choice struct {
	Model  *catalog.Model
	Reason string // short, for a header; empty where the caller named the model
	Task   catalog.Task
	Sticky bool // it has answered this conversation before
	// Others are the next best, in their order: they answer while the model cannot.
	Others []*catalog.Model
	// Ranking is every model of the catalog that was looked at; only Explain fills it in.
	Ranking []Ranked
}

// Ranked is one model that was looked at.
type Ranked struct {
	Model    *catalog.Model
	Score    float64
	Obstacle string // why it cannot be chosen; empty: it can
}

// Choose returns the model that answers, and remembers it for the conversation.
func (r *Router) Choose(a *Asked) (Choice, error) {
	if !a.Model.Router {
		return Choice{Model: a.Model}, nil
	}
	c, key, err := r.choose(a, false)
	if err == nil {
		r.conversations.remember(key, c.Model.ID, r.now())
	}
	return c, err
}

// Explain returns what Choose would, with the ranking, and remembers nothing.
func (r *Router) Explain(a *Asked) (Choice, error) {
	if !a.Model.Router {
		return Choice{Model: a.Model, Reason: "asked for by name"}, nil
	}
	c, _, err := r.choose(a, true)
	return c, err
}

func (r *Router) choose(a *Asked, explain bool) (Choice, uint64, error) {
	now := r.now()
	features := FeaturesOf(a.Request)
	choice := Choice{Task: features.Task}
	candidates, ill := a.candidates(now, &choice, explain)
	key := r.conversations.key(a.AccountID, a.Request)
	if len(candidates) == 0 {
		if ill {
			return choice, key, fault.New(fault.Unavailable, "Every model that could serve this request is out of order or busy at the moment. Try again shortly.").After(time.Second)
		}
		return choice, key, fault.New(fault.Invalid, "No model that the router may choose can serve this request. It may be too long, or need tools, images or JSON that none of them has.").At("model")
	}
	scores := make([]float64, len(candidates))
	scorer := a.Scorer
	if scorer == nil {
		scorer = Estimate{Dial: MiddleDial}
	}
	scorer.Score(features, candidates, scores)
	best := 0
	for i := range candidates {
		if scores[i] > scores[best] {
			best = i
		}
	}
	if follows(a.Request) {
		last := r.conversations.recall(key, now)
		for i := range candidates {
			if candidates[i].Model.ID == last {
				best, choice.Sticky = i, true
			}
		}
	}
	choice.Model = candidates[best].Model
	choice.Others = nextBest(candidates, scores, best)
	if choice.Sticky {
		choice.Reason = fmt.Sprintf("%s; goes on with the model of this conversation", features.Task)
	} else {
		choice.Reason = fmt.Sprintf("%s; best of %d", features.Task, len(candidates))
	}
	if explain {
		choice.rank(candidates, scores)
	}
	return choice, key, nil
}

// mostOthers is how many models stand behind the one that was chosen.
const mostOthers = 3

// nextBest are those with the highest scores behind the best.
func nextBest(candidates []Candidate, scores []float64, best int) []*catalog.Model {
	order := make([]int, 0, len(candidates))
	for i := range candidates {
		if i != best {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	others := make([]*catalog.Model, 0, mostOthers)
	for _, i := range order[:min(len(order), mostOthers)] {
		others = append(others, candidates[i].Model)
	}
	return others
}

// rank fills in the scores.
func (c *Choice) rank(candidates []Candidate, scores []float64) {
	for i := range c.Ranking {
		for k := range candidates {
			if c.Ranking[i].Model == candidates[k].Model {
				c.Ranking[i].Score = scores[k]
			}
		}
	}
}

// candidates are the models that meet every condition. Ill is whether some miss only health or room.
func (a *Asked) candidates(now time.Time, choice *Choice, explain bool) (candidates []Candidate, ill bool) {
	all := a.Catalog.Models()
	real := false
	for _, m := range all {
		real = real || !m.Router && !m.Sandbox && a.mayCall(m)
	}
	candidates = make([]Candidate, 0, len(all))
	for _, m := range all {
		if m.Router || real && m.Sandbox {
			continue
		}
		obstacle := a.obstacle(m)
		var latency time.Duration
		if obstacle == "" {
			if latency, obstacle = a.Routes.condition(m, now); obstacle != "" {
				ill = true
			}
		}
		if obstacle == "" {
			candidates = append(candidates, Candidate{Model: m, Latency: latency})
		}
		if explain {
			choice.Ranking = append(choice.Ranking, Ranked{Model: m, Obstacle: obstacle})
		}
	}
	return candidates, ill
}

// mayCall reports whether the caller may call the model at all.
func (a *Asked) mayCall(m *catalog.Model) bool {
	return a.Plan.Includes(m.Plan) && (!m.StaffOnly || a.Staff)
}

// obstacle is why the model cannot serve the request, by what is written of it. Sizes are estimates: the
// exact check follows for the model chosen.
func (a *Asked) obstacle(m *catalog.Model) string {
	req := a.Request
	switch {
	case m.StaffOnly && !a.Staff:
		return "has no tier yet: only staff may call it"
	case !a.mayCall(m):
		return "needs a higher plan"
	case m.Vanished:
		return "is no longer listed by its provider"
	case len(req.Tools) > 0 && !m.ToolCalling:
		return "cannot call tools"
	case req.Images() > 0 && !m.Images:
		return "does not take images"
	case m.NoImageURLs && provider.RemoteImage(req) != "":
		return "takes images as data: URLs alone"
	case req.Format.Kind != chat.FormatText && m.NoJSON:
		return "has no JSON mode"
	case req.N > 1 && m.Sandbox:
		return "gives one reply to a request"
	case req.MaxTokens > m.MaxOutput:
		return "writes less than max_tokens"
	case req.PromptBytes()/bytesPerToken > m.ContextLength:
		return "reads less than the prompt"
	}
	return ""
}

// condition is how soon the model's replies begin at its best place, or why it has none now.
func (r *Routes) condition(m *catalog.Model, now time.Time) (latency time.Duration, obstacle string) {
	rt := r.byModel[m]
	if rt == nil || len(rt.targets) == 0 {
		return 0, "has no provider"
	}
	obstacle = "is out of order"
	found := false
	for _, t := range rt.targets {
		s := t.Standing(now)
		if s.State == Open {
			continue
		}
		if most := t.load.most.Load(); most > 0 && t.load.running.Load() >= most {
			if !found {
				obstacle = "has no free place"
			}
			continue
		}
		if !found || s.Latency < latency {
			latency = s.Latency
		}
		found, obstacle = true, ""
	}
	return latency, obstacle
}
