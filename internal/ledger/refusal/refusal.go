// Package refusal remembers calls that were refused: all of them as counts by minute, and the last ones of each
// account with the reason. Support and the customer read them.
//
// A Collector collects refusals in memory and writes them to the store every few seconds, so a caller that is refused
// a thousand times a second costs the database little. What was not written when a process dies is lost: nothing is
// charged by it. Whether a call is refused is decided elsewhere; see admission.
package refusal

import (
	"net/http"
	"time"
)

const (
	// Kept is how many refused calls of an account are kept, the newest ones.
	Kept = 1000
	// KeepCalls and KeepMinutes are for how long calls and counts are kept.
	KeepCalls   = 30 * 24 * time.Hour
	KeepMinutes = 7 * 24 * time.Hour
)

// Call is a call that was refused. It holds nothing of the call's body but the name of the field that was wrong.
type Call struct {
	ID        string    `json:"id"`                   // our own id of the request
	RequestID string    `json:"request_id,omitempty"` // the id that the caller was told, if a proxy gave it
	At        time.Time `json:"at"`
	AccountID string    `json:"account"`
	KeyID     string    `json:"key"`
	Status    int       `json:"status"`
	Kind      string    `json:"type"`            // the type of the error, such as rate_limit_error
	Param     string    `json:"param,omitempty"` // the field that the error names, such as messages[2].content; may be empty
	Path      string    `json:"path"`
	Model     string    `json:"model,omitempty"`   // the model asked for; empty if there is none of that name
	Address   string    `json:"address,omitempty"` // the caller's
	// Message is what the caller was told. It is empty for invalid requests, whose message may quote them.
	Message string `json:"-"`
}

// Told returns the id that the caller was told.
func (c *Call) Told() string {
	if c.RequestID != "" {
		return c.RequestID
	}
	return c.ID
}

// Minute counts the calls of an account that were refused with a status in one minute.
type Minute struct {
	AccountID string    `json:"-"`
	Start     time.Time `json:"hour"`
	Status    int       `json:"status"`
	Calls     int64     `json:"calls"`
}

// Point is a position in an account's list of refused calls, which is ordered by At and then by ID.
type Point struct {
	At time.Time
	ID string
}

// Counts reports whether calls refused with the status are kept. Others are either no decision about the account, such
// as 404, or about somebody who is not known.
func Counts(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return false
}
