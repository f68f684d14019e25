package httpapi

import (
	"encoding/json"
	"math"
	"net/http"

	"sluice/internal/ledger/price"
	"sluice/internal/line/inference"
	"sluice/internal/upstream/routing"
)

// routeReply says which model would serve a request, and why.
type routeReply struct {
	Object string `json:"object"`
	Asked  string `json:"asked"`
	Model  string `json:"model"`
	Reason string `json:"reason"`
	Task   string `json:"task,omitempty"` // only if the router chose
	Sticky bool   `json:"sticky"`
	// Difficulty is the chance that a weak model fails where a strong one does not, and whether anything is known
	// about such a prompt.
	Difficulty      float64 `json:"difficulty"`
	DifficultyKnown bool    `json:"difficulty_known"`
	costRange
	Cache      *cacheReply      `json:"cache,omitempty"` // only if marks are wanted, and the vendor needs them
	Candidates []candidateReply `json:"candidates"`
}

// cacheReply says what would be marked for the cache of the vendor.
type cacheReply struct {
	TTL    *string `json:"ttl"` // null: nothing
	Reason string  `json:"reason"`
}

// cacheOf converts it.
func cacheOf(c inference.Caching) *cacheReply {
	if c.Reason == "" {
		return nil
	}
	out := &cacheReply{Reason: c.Reason}
	if ttl := c.Marks.Longest().String(); ttl != "" {
		out.TTL = &ttl
	}
	return out
}

// costRange are what a call costs at a model at least and at most, in dollars; null if that is not known.
type costRange struct {
	Least json.RawMessage `json:"cost_min_usd"`
	Most  json.RawMessage `json:"cost_max_usd"`
}

// costsOf converts them.
func costsOf(least, most *price.Nano) costRange {
	dollars := func(n *price.Nano) json.RawMessage {
		if n == nil {
			return json.RawMessage("null")
		}
		return n.AppendJSON(nil)
	}
	return costRange{dollars(least), dollars(most)}
}

// candidateReply is a model that the router considered.
type candidateReply struct {
	Model    string   `json:"model"`
	Score    *float64 `json:"score"`              // null if it cannot be chosen
	Obstacle string   `json:"obstacle,omitempty"` // why it cannot be chosen
	// What the router expects of the model: how well it answers, from 0 to 1, and what that costs.
	Quality float64 `json:"expected_quality"`
	CostUSD float64 `json:"cost_usd"`
	costRange
	Passed string `json:"passed_over,omitempty"` // why another model was chosen
	// Feedback is what feedback has added to the quality of the model for this kind of task.
	Feedback float64 `json:"feedback,omitempty"`
}

// explainRoute serves POST /v1/route. It takes a chat request and returns the routing decision
// without calling a model. It counts as one request.
func (a *API) explainRoute(x *exchange, r *http.Request) error {
	req, _, release, err := a.readChat(x, r)
	if err != nil {
		return err
	}
	defer release()
	call := &inference.Call{ID: x.event.CallID, Start: x.event.Start, Caller: x.caller, Limits: x.limits(), Request: req, Session: (&completion{Request: req}).session(r.Header)}
	var choice routing.Choice
	err = a.current(x, func() (err error) {
		choice, err = a.line.Explain(r.Context(), x.Header(), x.models(), call)
		return err
	})
	if err != nil {
		return err
	}
	out := routeReply{Object: "route", Asked: req.Model, Model: choice.Model.ID, Reason: choice.Reason, Sticky: choice.Sticky, Difficulty: rounded(choice.Difficulty.Chance, 6), DifficultyKnown: choice.Difficulty.Known, Candidates: []candidateReply{}}
	out.costRange = costsOf(a.line.Costs(call, choice.Model))
	out.Cache = cacheOf(a.line.ExplainMarks(x.models(), call, choice.Model))
	if len(choice.Ranking) > 0 {
		out.Task = choice.Task.String()
	}
	for i := range choice.Ranking {
		c := candidateOf(&choice.Ranking[i])
		c.costRange = costsOf(a.line.Costs(call, choice.Ranking[i].Model))
		out.Candidates = append(out.Candidates, c)
	}
	return x.encode(out)
}

// candidateOf converts a ranked model. The score is rounded to two decimals.
func candidateOf(r *routing.Ranked) candidateReply {
	c := candidateReply{Model: r.Model.ID, Obstacle: r.Obstacle, Quality: rounded(r.Quality/100, 4), CostUSD: rounded(r.CostMicro/1e6, 6), Passed: r.Passed, Feedback: rounded(r.Feedback/100, 4)}
	if r.Obstacle == "" {
		score := rounded(r.Score, 2)
		c.Score = &score
	}
	return c
}

// rounded rounds a number to the given number of decimals.
func rounded(v float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(v*unit) / unit
}

// models returns the models that can be called, from the settings of this request.
func (x *exchange) models() inference.Models {
	m := inference.Models{Catalog: x.settings.Catalog, Routes: x.settings.Routes, Scorer: x.settings.Scorer, Weights: x.settings.Weights}
	if x.settings.feedback != nil {
		m.Strengths = x.settings.feedback.Strengths()
	}
	return m
}
