// Package routing decides which model answers a request, and who is asked for it.
//
// A model named in the request is served by its own targets; only service/auto is routed. A Router first
// leaves out the models that cannot serve the request, then scores the others. Routes know where each
// model is served and how well those places are; a Plan is the order in which one request asks them.
package routing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/provider"
)

// Router chooses models. It remembers conversations, so there is one for the life of the process.
type Router struct {
	conversations *conversations
	now           func() time.Time
}

// NewRouter returns a router that has seen no conversation.
func NewRouter() *Router { return &Router{conversations: newConversations(), now: time.Now} }

// Query is a request for a model, as the router sees it.
type Query struct {
	Catalog   *catalog.Catalog
	Routes    *Routes
	Model     *catalog.Model
	AccountID string
	Plan      account.Plan
	Staff     bool   // may call what has no tier yet
	Scorer    Scorer // nil: an Estimate at the middle of its dial
	Request   *chat.Request
	// PromptTokens is about how many tokens the prompt has; 0: a guess by its bytes.
	PromptTokens int
	// Reads reports whether the prompt may fit a window of so many tokens; nil: a guess by its bytes.
	Reads func(most int) bool
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
func (r *Router) Choose(q *Query) (Choice, error) {
	if !q.Model.Router {
		return Choice{Model: q.Model}, nil
	}
	c, key, err := r.choose(q, false)
	if err == nil {
		r.conversations.remember(key, c.Model.ID, r.now())
	}
	return c, err
}

// Explain returns what Choose would, with the ranking, and remembers nothing.
func (r *Router) Explain(q *Query) (Choice, error) {
	if !q.Model.Router {
		return Choice{Model: q.Model, Reason: "asked for by name"}, nil
	}
	c, _, err := r.choose(q, true)
	return c, err
}

func (r *Router) choose(q *Query, explain bool) (Choice, uint64, error) {
	now := r.now()
	features := FeaturesOf(q.Request)
	if q.PromptTokens > 0 {
		features.PromptTokens = q.PromptTokens
	}
	choice := Choice{Task: features.Task}
	candidates, missed := q.candidates(now, &choice, explain)
	key := r.conversations.key(q.AccountID, q.Request)
	if len(candidates) == 0 {
		return choice, key, missed.fault(q)
	}
	scores := make([]float64, len(candidates))
	scorer := q.Scorer
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
	if follows(q.Request) {
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

// candidates are the models that meet every condition, and what the others miss.
//
// A prompt that is only a little longer than a window may still fit by the vendor's own count. Such a
// model is a candidate where no window is surely large enough.
func (q *Query) candidates(now time.Time, choice *Choice, explain bool) (candidates []Candidate, missed missed) {
	all := q.Catalog.Models()
	real, roomy := false, false
	for _, m := range all {
		real = real || !m.Router && !m.Sandbox && q.mayCall(m)
	}
	for _, m := range all {
		roomy = roomy || !m.Router && !(real && m.Sandbox) && q.obstacle(m, m.ContextLength) == none
	}
	candidates = make([]Candidate, 0, len(all))
	for _, m := range all {
		if m.Router || real && m.Sandbox {
			continue
		}
		room := m.ContextLength
		if !roomy && !m.Sandbox {
			room = room / 5 * 6
		}
		obstacle := q.obstacle(m, room)
		var latency time.Duration
		if obstacle == none {
			latency, obstacle = q.Routes.condition(m, now)
		}
		missed.note(obstacle)
		if obstacle == none {
			candidates = append(candidates, Candidate{Model: m, Latency: latency})
		}
		if explain {
			choice.Ranking = append(choice.Ranking, Ranked{Model: m, Obstacle: obstacle.String()})
		}
	}
	return q.eloquent(candidates, choice), missed
}

// eloquent leaves out who writes less than max_tokens, where somebody writes as much. Where nobody does,
// the bound is clamped.
func (q *Query) eloquent(candidates []Candidate, choice *Choice) []Candidate {
	short := func(c Candidate) bool { return c.Model.MaxOutput < q.Request.MaxTokens }
	if !slices.ContainsFunc(candidates, func(c Candidate) bool { return !short(c) }) {
		return candidates
	}
	for i := range choice.Ranking {
		if r := &choice.Ranking[i]; r.Obstacle == "" && short(Candidate{Model: r.Model}) {
			r.Obstacle = "writes less than max_tokens"
		}
	}
	return slices.DeleteFunc(candidates, short)
}

// mayCall reports whether the caller may call the model at all.
func (q *Query) mayCall(m *catalog.Model) bool {
	return q.Plan.Includes(m.Plan) && (!m.StaffOnly || q.Staff)
}

// obstacle is why the model cannot serve the request, by what is written of it. Room is how many tokens of
// a prompt it reads.
func (q *Query) obstacle(m *catalog.Model, room int) obstacle {
	req := q.Request
	switch {
	case m.StaffOnly && !q.Staff:
		return staffOnly
	case !q.mayCall(m):
		return lowPlan
	case m.Vanished:
		return vanished
	case len(req.Tools) > 0 && !m.ToolCalling:
		return noTools
	case req.Images() > 0 && !m.Images:
		return noImages
	case m.NoImageURLs && provider.RemoteImage(req) != "":
		return dataImages
	case req.Foreign().Path != "" && m.Sandbox:
		return foreign
	case req.Format.Kind != chat.FormatText && m.NoJSON:
		return noJSON
	case req.N > 1 && m.Sandbox:
		return oneReply
	case !q.reads(room):
		return tooLong
	}
	return none
}

// reads reports whether the prompt may fit a window.
func (q *Query) reads(most int) bool {
	if q.Reads != nil {
		return q.Reads(most)
	}
	return q.Request.PromptBytes()/bytesPerToken <= most
}

// condition is how soon the model's replies begin at its best place, or why it has none now.
func (r *Routes) condition(m *catalog.Model, now time.Time) (latency time.Duration, o obstacle) {
	rt := r.byModel[m]
	if rt == nil || len(rt.targets) == 0 {
		return 0, noProvider
	}
	o = outOfOrder
	found := false
	for _, t := range rt.targets {
		s := t.Standing(now)
		if s.State == Open {
			continue
		}
		if most := t.load.most.Load(); most > 0 && t.load.running.Load() >= most {
			if !found {
				o = full
			}
			continue
		}
		if !found || s.Latency < latency {
			latency = s.Latency
		}
		found, o = true, none
	}
	return latency, o
}
