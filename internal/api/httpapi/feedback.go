package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// maxFeedback is the largest body of POST /v1/feedback.
const maxFeedback = 1 << 20

// feedbackReply says what a vote was about.
type feedbackReply struct {
	Object    string `json:"object"`
	RequestID string `json:"request_id"`
	Rating    string `json:"rating"`
	Model     string `json:"model"`
	Task      string `json:"task"`
}

// rateAnswer serves POST /v1/feedback. It counts as one request, also if the call is unknown: guessing ids costs
// something.
func (a *API) rateAnswer(x *exchange, r *http.Request) error {
	if x.settings.feedback == nil {
		return fault.New(fault.NotFound, "This service takes no feedback: it is turned off here.")
	}
	body, release, err := a.readBody(x, r, maxFeedback, 1)
	if err != nil {
		return err
	}
	defer release()
	id, good, err := parseFeedback(body)
	if err != nil {
		return err
	}
	if err := a.line.Admit(x.Header(), x.caller, x.limits()); err != nil {
		return err
	}
	vote, err := x.settings.feedback.Rate(r.Context(), x.caller.Account.ID, id, good)
	if err != nil {
		return err
	}
	out := feedbackReply{Object: "feedback", RequestID: vote.RequestID, Rating: "bad", Model: vote.Model, Task: vote.Task.String()}
	if good {
		out.Rating = "good"
	}
	return x.encode(out)
}

// feedbackShape is the keys of a body of POST /v1/feedback.
var feedbackShape = chat.Keys("request_id", "rating")

// parseFeedback reads the id of a request and whether its answer was good.
func parseFeedback(body []byte) (id string, good bool, err error) {
	var in struct {
		RequestID string `json:"request_id"`
		Rating    string `json:"rating"`
	}
	// The decoder takes other spellings of a key, and the last of two.
	if _, err := chat.Check(body, "request_id and rating", feedbackShape); err != nil {
		return "", false, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return "", false, fault.New(fault.Invalid, `The body must be a JSON object with request_id and rating, such as {"request_id":"…","rating":"good"}.`).Because(err)
	}
	switch {
	case in.RequestID == "" || len(in.RequestID) > maxGivenID:
		return "", false, fault.New(fault.Invalid, "request_id must have 1 to %d characters; it is the header x-request-id of the reply, or the id of the completion.", maxGivenID).At("request_id")
	case in.Rating != "good" && in.Rating != "bad":
		return "", false, fault.New(fault.Invalid, "rating must be good or bad; got %q.", excerpt.Of(in.Rating, maxEcho)).At("rating")
	}
	return in.RequestID, in.Rating == "good", nil
}
