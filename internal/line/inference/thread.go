package inference

import (
	"context"
	"encoding/json"
	"net/http"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// thread is what is kept of a reply whose conversation the upstream holds: which target answered, since no other key finds
// the conversation, and how long it is. It is kept under the upstream's id of the reply, for the account alone: an id of
// another account's is as good as none.
type thread struct {
	Model    string `json:"model"` // its catalog id
	Provider string `json:"provider"`
	Upstream string `json:"upstream"`
	Key      string `json:"key"`               // its last four
	Replica  string `json:"replica,omitempty"` // host and port of the server, where the provider has several
	Tokens   int    `json:"tokens"`            // of the prompt and the reply
}

// stateOf returns the name under which the state of a message is kept. Ids of tool calls have no such beginning.
func stateOf(messageID string) string { return "message " + messageID }

// recall sets the thread that a call continues. It asks the database, as few calls do, so a call that has no request left
// is refused before. What cannot be recalled is not known: the caller then sends the conversation again.
func (l *Line) recall(ctx context.Context, h http.Header, call *Call) error {
	if call.Request == nil || call.Request.Original == nil || call.Request.Original.Thread.Previous == "" || l.states == nil {
		return nil
	}
	previous := call.Request.Original.Thread.Previous
	if err := l.Knock(h, call.Caller, call.Limits); err != nil {
		return err
	}
	raw, ok, err := l.states.For(call.Caller.Account.ID).Recall(ctx, stateOf(previous))
	var t thread
	if ok && err == nil && json.Unmarshal(raw, &t) == nil {
		call.thread = &t
	}
	return nil
}

// held returns the model that answered the message which the call continues; nil if there is none, or if it cannot answer
// this call: the caller may not call it any more, it is under maintenance, or the conversation is too long for it.
func (l *Line) held(models *Models, call *Call) *catalog.Model {
	if call.thread == nil {
		return nil
	}
	m, ok := models.Catalog.Lookup(call.thread.Model)
	if a := call.Caller.Account; !ok || !a.Plan.Includes(m.Plan) || m.StaffOnly && !a.Staff || l.closed(m.ID, call.Start) != nil || call.prompt.check(m) != nil {
		return nil
	}
	return m
}

// keepThread keeps what a later call needs to continue this one. If that fails, the caller is told then that the
// conversation is lost, and sends it again.
func (a *attempts) keepThread() {
	s, ok := a.stream.(provider.Held)
	if !ok || s.MessageID() == "" {
		return
	}
	var u chat.Usage
	if known, ok := figuresOf(a.stream); ok {
		u = known
	}
	raw, err := json.Marshal(thread{Model: a.at.Model.ID, Provider: a.at.Provider, Upstream: a.at.Upstream, Key: a.at.LastFour, Replica: a.at.Replica, Tokens: u.Total()})
	if err != nil {
		return
	}
	_ = a.call.Memory.Keep(context.WithoutCancel(a.ctx), stateOf(s.MessageID()), raw)
}
