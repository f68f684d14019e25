// Package routing decides which model answers a request, and which upstreams are called for it.
//
// A model named in the request is served by its own targets; only service/auto is routed. A Router
// leaves out the models that cannot take the request (fit.go, obstacle.go), then scores the others
// (score.go). Routes holds the targets of each model and their health; a Plan is the order in which one
// request tries them. This package calls no upstream itself: package inference does, along a Plan.
package routing

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/seal"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing/learned"
)

// Router chooses models. It remembers conversations, so one router lives as long as the process. It is
// safe for concurrent use.
type Router struct {
	conversations *conversations
	homes         *homes
	shared        *sharing         // nil: this process is the only one
	now           func() time.Time // replaced in tests
	benches       sync.Pool        // of *bench
}

// bench is the room in which one choice is made. Benches are used again, which saves several allocations of a call.
type bench struct {
	candidates []Candidate
	scores     []float64
	text       []byte // of a message
}

// RouterOptions are the choices of NewRouter; the zero value is the default.
type RouterOptions struct {
	// Shared keeps the models of conversations for all nodes; nil: this process is the only one. With Shared,
	// Run must run.
	Shared Shared
	// Key is the service's own, which conversations are hashed under. It is the same on all nodes.
	Key seal.Key
	// Log gets a line when Shared does not answer; default slog.Default().
	Log *slog.Logger
}

// NewRouter returns a router that has seen no conversation. Opts may be nil.
func NewRouter(opts *RouterOptions) *Router {
	if opts == nil {
		opts = &RouterOptions{}
	}
	r := &Router{conversations: newConversations(), now: time.Now, benches: sync.Pool{New: func() any { return &bench{} }}}
	if opts.Shared != nil {
		r.shared = newSharing(opts.Shared, opts.Key, opts.Log)
	}
	r.homes = newHomes(opts.Key, r.shared)
	return r
}

// Run exchanges the models and the homes of conversations with other nodes, until ctx ends. If this process is alone, it
// returns at once.
func (r *Router) Run(ctx context.Context) {
	if r.shared != nil {
		r.shared.run(ctx, r.learn)
	}
}

// learn takes over what other nodes tell of conversations.
func (r *Router) learn(list []Conversation) {
	now := r.now()
	for i := range list {
		if !r.homes.learn(&list[i], now) {
			r.conversations.learn(&list[i])
		}
	}
}

// Query is what the router needs to know to choose a model for one request.
type Query struct {
	Catalog   *catalog.Catalog // of the settings that the request started with
	Routes    *Routes          // of the same settings
	Model     *catalog.Model   // the model that the request names
	AccountID string
	Plan      account.Plan
	Staff     bool     // the account may call models that have no tier yet
	Scorer    Scorer   // nil: an Estimate at the middle of its dial
	Weights   *Weights // nil: the router has learned nothing
	// Strengths are what feedback has taught; nil: nothing.
	Strengths *Strengths
	Request   *chat.Request
	// PromptTokens is an estimate of the prompt's tokens; 0: the router guesses by the bytes.
	PromptTokens int
	// Circumstances knows more about the request; nil: the router guesses by the bytes, and no model is closed.
	Circumstances Circumstances
}

// Circumstances is what the router asks about models and a request. It must return the same answer when it is asked
// again. It is an interface and not two functions, so that a query takes one allocation.
type Circumstances interface {
	// Closed reports whether the model is under maintenance.
	Closed(m *catalog.Model) bool
	// Reads reports whether the prompt may fit a window of this many tokens.
	Reads(most int) bool
}

// Choice is the model that answers, and why.
type Choice struct {
	Model  *catalog.Model
	Reason string // short, for a header; empty if the caller named the model
	Task   catalog.Task
	// Difficulty is the chance that a weak model fails where a strong one does not. Explain also fills it in for a
	// model that was named.
	Difficulty learned.Difficulty
	Sticky     bool // the model has answered this conversation before
	// Others are the next best models, best first. They stand in while the model cannot answer.
	Others []*catalog.Model
	// Ranking lists every model that the router looked at, in the order of the catalog. Only Explain
	// fills it in.
	Ranking []Ranked

	conversation ConversationID // set if the router chose
}

// Ranked is one model that the router looked at.
type Ranked struct {
	Model    *catalog.Model
	Score    float64 // 0 if there is an obstacle
	Obstacle string  // why it cannot be chosen; empty: it can
	// How well the model is expected to answer, from 0 to 100, and what that costs, in micro-dollars.
	Quality, CostMicro float64
	// Feedback is the part of the quality that feedback has added or taken away, in points.
	Feedback float64
	// Passed says why another model was chosen; empty: it was chosen, or there is an obstacle.
	Passed string
}

// Choose returns the model that answers, and remembers it for the conversation. Once the call is admitted, Share
// tells the other nodes.
func (r *Router) Choose(ctx context.Context, q *Query) (Choice, error) {
	if !q.Model.Router {
		return Choice{Model: q.Model}, nil
	}
	c, err := r.choose(ctx, q, false)
	if err == nil {
		r.conversations.remember(c.conversation, c.Model.ID, r.now())
	}
	return c, err
}

// Share passes a choice of Choose on to the other nodes, in the background. It is apart from Choose so that a
// call that is refused writes nothing.
func (r *Router) Share(c *Choice) {
	if r.shared != nil && c.conversation != (ConversationID{}) {
		r.shared.put(Conversation{ID: c.conversation, Model: c.Model.ID})
	}
}

// Explain returns what Choose would return, with the ranking. It remembers nothing.
func (r *Router) Explain(ctx context.Context, q *Query) (Choice, error) {
	if !q.Model.Router {
		f := q.features(&bench{})
		return Choice{Model: q.Model, Reason: "asked for by name", Difficulty: f.Difficulty}, nil
	}
	return r.choose(ctx, q, true)
}

// choose returns the choice. The error is a fault for the caller.
func (r *Router) choose(ctx context.Context, q *Query, explain bool) (Choice, error) {
	now := r.now()
	t := r.benches.Get().(*bench)
	defer r.benches.Put(t)
	features := q.features(t)
	choice := Choice{Task: features.Task, Difficulty: features.Difficulty}
	candidates, missed := q.candidates(now, t.candidates, &choice, explain)
	t.candidates = candidates[:0]
	if len(candidates) == 0 {
		return choice, missed.fault(q)
	}
	choice.conversation = r.conversation(q, t)
	last := r.begun(ctx, q, choice.conversation, &features, now)
	scores := append(t.scores[:0], make([]float64, len(candidates))...)
	t.scores = scores[:0]
	scorer := q.Scorer
	if scorer == nil {
		scorer = Estimate{Dial: MiddleDial}
	}
	scorer.Score(features, candidates, scores)
	// Of equal scores the first in the catalog wins, so that the choice is the same every time.
	best := 0
	for i := range candidates {
		if scores[i] > scores[best] {
			best = i
		}
	}
	// A conversation stays with its model, even if another scores better now: a change in the middle costs
	// the upstream's prompt cache and changes the style of the answers.
	for i := range candidates {
		if last != "" && candidates[i].Model.ID == last {
			best, choice.Sticky = i, true
		}
	}
	choice.Model = candidates[best].Model
	choice.Reason = reason(&features, candidates, best, choice.Sticky)
	if explain {
		choice.rank(candidates, scores, &features)
	}
	choice.Others = nextBest(candidates, scores, best)
	return choice, nil
}

// begun returns the id of the model that has begun the conversation, empty if there is none, and notes in the features what
// of the prompt that model has in its cache.
func (r *Router) begun(ctx context.Context, q *Query, id ConversationID, f *Features, now time.Time) string {
	if !follows(q.Request) {
		return ""
	}
	last, called := r.conversations.recall(id, now)
	if last == "" && r.shared != nil {
		last, called = r.shared.find(ctx, id), now
	}
	if m, ok := q.Catalog.Lookup(last); ok && now.Sub(called) <= surelyCached && q.Routes.returns(m) {
		f.warm, f.cached = last, cachedOf(q.Request, f.PromptTokens)
	}
	return last
}

// features returns what the router looks at.
func (q *Query) features(on *bench) Features {
	f := featuresOf(q.Request, on)
	f.strengths = q.Strengths
	// The caller's estimate is better than ours if it has one: it may have counted the prompt.
	if q.PromptTokens > 0 {
		f.PromptTokens = q.PromptTokens
	}
	if m := q.Weights.model(); m != nil {
		d := difficultyOf(q.Request, m)
		if f.Task == catalog.Chat { // the list of words has found nothing, and the longer one may have
			f.Task = taskOfKind[d.Kind]
		}
		f.Difficulty = raised(d, q.Request, &f)
	} else {
		f.Difficulty.Chance = learned.Typical
	}
	f.curve = learned.CurveOf(f.Difficulty.Chance)
	return f
}

// conversation returns the id of the request's conversation.
func (r *Router) conversation(q *Query, on *bench) ConversationID {
	if r.shared != nil {
		return r.shared.id(q.AccountID, q.Request.Opening(), on)
	}
	return r.conversations.id(q.AccountID, q.Request.Opening(), on)
}

// mostOthers is the number of models that stand in for the chosen one. A request that four models have
// failed to answer is not likely to succeed at a fifth.
const mostOthers = 3

// nextBest returns the models with the highest scores after the best, highest first. It uses the scores up.
func nextBest(candidates []Candidate, scores []float64, best int) []*catalog.Model {
	n := min(len(candidates)-1, mostOthers)
	if n == 0 {
		return nil
	}
	others := make([]*catalog.Model, n)
	scores[best] = math.Inf(-1) // nobody needs it any more
	for k := range others {
		next := -1
		for i := range candidates {
			if !math.IsInf(scores[i], -1) && (next < 0 || scores[i] > scores[next]) {
				next = i
			}
		}
		others[k], scores[next] = candidates[next].Model, math.Inf(-1)
	}
	return others
}

// rank copies the scores into the ranking, with what they were made of.
func (c *Choice) rank(candidates []Candidate, scores []float64, f *Features) {
	var chosen *Candidate
	for k := range candidates {
		if candidates[k].Model == c.Model {
			chosen = &candidates[k]
		}
	}
	for i := range c.Ranking {
		r := &c.Ranking[i]
		r.Quality, r.CostMicro = expected(r.Model, f), costOf(r.Model, f)
		r.Feedback = f.strengths.Of(r.Model.ID, f.Task)
		for k := range candidates {
			if r.Model != candidates[k].Model {
				continue
			}
			r.Score = scores[k]
			if r.Model != c.Model {
				r.Passed = passed(f, &candidates[k], chosen, c.Sticky)
			}
		}
	}
}

// candidates returns the models that meet every condition, and the set of what the others lack. If explain
// is set, it lists all of them in the choice's ranking. Room is used for the result.
//
// The sandbox's models are candidates only if the caller may call no real model: they are there for trying
// the service out.
//
// A prompt that is a little longer than a context by our count may still fit by the vendor's own count.
// Such a model is a candidate only if no context is surely large enough.
func (q *Query) candidates(now time.Time, room []Candidate, choice *Choice, explain bool) (candidates []Candidate, missed missed) {
	all := q.Catalog.Models()
	real, roomy := false, false // the caller may call a real model; some context is surely large enough
	for _, m := range all {
		real = real || !m.Router && !m.Embeds && !m.Sandbox && q.mayCall(m)
	}
	for _, m := range all {
		roomy = roomy || !m.Router && !m.Embeds && !(real && m.Sandbox) && q.obstacle(m, m.ContextLength) == none
	}
	candidates = room[:0]
	for _, m := range all {
		if m.Router || m.Embeds || real && m.Sandbox {
			continue
		}
		reads := m.ContextLength
		if !roomy {
			reads = Window(m)
		}
		// Health comes last, so that the reported obstacle is one that the caller can do something about.
		obstacle := q.obstacle(m, reads)
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

// eloquent leaves out the models that write less than max_tokens, provided that another one writes enough.
// If none does, all stay, and the adapter lowers max_tokens to what its model can write.
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

// mayCall reports whether the account may call the model at all, whatever the request says.
func (q *Query) mayCall(m *catalog.Model) bool {
	return q.Plan.Includes(m.Plan) && (!m.StaffOnly || q.Staff)
}

// obstacle returns why the model cannot be chosen, judged by the catalog alone; none: it can. Room is the
// largest prompt that it reads, in tokens. The model's health is not looked at; see Routes.condition.
func (q *Query) obstacle(m *catalog.Model, room int) obstacle {
	switch {
	case m.StaffOnly && !q.Staff:
		return staffOnly
	case !q.mayCall(m):
		return lowPlan
	case m.Vanished:
		return vanished
	}
	if o := misfitsOf(q.Request, m).first(); o != none {
		return o
	}
	if !q.reads(room) {
		return tooLong
	}
	if q.Circumstances != nil && q.Circumstances.Closed(m) {
		return closed
	}
	return none
}

// reads reports whether the prompt may fit a window of this many tokens.
func (q *Query) reads(most int) bool {
	if q.Circumstances != nil {
		return q.Circumstances.Reads(most)
	}
	return q.Request.PromptBytes()/bytesPerToken <= most
}

// condition returns how long the model's replies take to begin at its fastest target that can be called
// now. If there is none, it returns the obstacle: full if a target has no free place, outOfOrder if all
// breakers are open or all targets drained.
func (r *Routes) condition(m *catalog.Model, now time.Time) (latency time.Duration, o obstacle) {
	rt := r.byModel[m]
	if rt == nil || len(rt.targets) == 0 {
		return 0, noProvider
	}
	o = outOfOrder
	found := false
	for _, t := range rt.targets {
		s := t.Health(now)
		if !s.Callable() {
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
