package routing

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/kit/fault"
)

// obstacle is why the router cannot choose a model.
//
// The order of the constants counts: of several misfits the router reports the first (misfits.first).
type obstacle uint8

const (
	none obstacle = iota
	// The service is in the way. The caller can only wait.
	staffOnly  // it has no tier yet
	vanished   // its provider does not list it any more
	noProvider // no target is configured
	outOfOrder // the breakers of all targets are open
	closed     // it is under maintenance
	full       // its providers run as many calls as they may
	// The caller's plan is in the way.
	lowPlan
	// The request is in the way: misfitsOf finds all of these except tooLong.
	noChat
	noTools
	noImages
	dataImages
	foreign
	noJSON
	oneReply
	tooLong

	obstacles // the number of obstacles
)

// String returns what POST /v1/route says about the model; empty for none.
func (o obstacle) String() string {
	return [obstacles]string{
		staffOnly:  "has no tier yet: only staff may call it",
		vanished:   "is no longer listed by its provider",
		noProvider: "has no provider",
		outOfOrder: "is out of order",
		closed:     "is under maintenance",
		full:       "has no free place",
		lowPlan:    "needs a higher plan",
		noChat:     "makes embeddings",
		noTools:    "cannot call tools",
		noImages:   "does not take images",
		dataImages: "takes images as data: URLs alone",
		foreign:    "takes text and images alone",
		noJSON:     "has no JSON mode",
		oneReply:   "gives one reply to a request",
		tooLong:    "reads less than the prompt",
	}[o]
}

// missed is the set of obstacles that were found, over all models.
type missed [obstacles]bool

func (m *missed) note(o obstacle) { m[o] = true }

// fault returns why there is no candidate: 503 if only the health of a model is in the way, 400 if the
// request rules all models out, 403 if only a higher plan has models. The message names the model of the
// request and none of those behind it: callers who route must not learn the operator's list.
func (m *missed) fault(q *Query) error {
	if m[outOfOrder] || m[full] || m[closed] || m[noProvider] {
		return fault.New(fault.Unavailable, "Every model behind %q that could serve this request is out of order or busy at the moment. Try again shortly.", q.Model.ID).After(time.Second)
	}
	// All reasons are listed, but each may keep only some of the models out: a request may have to change in
	// one of several ways. So several reasons point to no single parameter.
	var reasons []string
	param := ""
	for _, r := range []struct {
		obstacle    obstacle
		says, param string
	}{
		{noTools, "has tools", "tools"},
		{noImages, "has images", "messages"},
		{dataImages, "has images that are not data: URLs", "messages"},
		{foreign, "has parts or tools of kinds that only some providers know", q.Request.Foreign().Path},
		{noJSON, "asks for JSON", "response_format"},
		{oneReply, "asks for more than one reply", "n"},
		{tooLong, "has a prompt that is too long", "messages"},
	} {
		if m[r.obstacle] {
			reasons = append(reasons, r.says)
			param = r.param
		}
	}
	switch {
	case len(reasons) == 1:
		f := q.unfit(fmt.Sprintf("No model behind %q can serve this request: it %s.", q.Model.ID, reasons[0]), param, m[tooLong])
		if m[foreign] {
			f.Details = q.Request.Foreign().Details()
		}
		return f
	case len(reasons) > 1:
		last := len(reasons) - 1
		return fault.New(fault.Invalid, "No model behind %q can serve this request: it %s and %s.", q.Model.ID, strings.Join(reasons[:last], ", "), reasons[last]).At("model")
	case m[lowPlan]:
		return fault.New(fault.PlanTooLow, "Every model behind %q needs a higher plan. Upgrade, or name a model of a lower tier.", q.Model.ID).At("model")
	}
	return fault.New(fault.Unavailable, "There is no model behind %q at the moment. Name another model, or try again later.", q.Model.ID).After(time.Minute)
}

// unfit returns the fault of a request with one thing that no model takes. Programs shorten a prompt that is too long, so
// they must recognize it.
func (q *Query) unfit(says, param string, long bool) *fault.Fault {
	if long {
		return fault.NewLong(fault.Long{Tokens: q.PromptTokens, Most: q.largest(), Advice: says})
	}
	return fault.New(fault.Invalid, "%s", says).At(param)
}

// largest returns how many tokens the model with the largest context reads, of those that the caller may see.
func (q *Query) largest() (most int) {
	for _, m := range q.Catalog.Models() {
		if !m.Router && !m.Embeds && (!m.StaffOnly || q.Staff) {
			most = max(most, m.ContextLength)
		}
	}
	return most
}
