// Package account holds accounts, their plans and their keys, and every way these may change.
//
// Each change is one method of Accounts. It runs inside one transaction of the Store, adds an entry
// to the audit log, and is published to OnChange before it returns: a key that was deleted is
// refused from the moment its owner is told so. Who may call what is not decided here; see
// admission.
package account

import (
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
)

// Account is an account at one Version. Requests read it without a lock, so it is never changed
// after it was published; a change makes a new one.
type Account struct {
	ID      string
	Email   string
	Plan    Plan
	Granted bool // staff set the plan: it has no period and costs nothing until it is changed
	Staff   bool // may call models that have no tier yet

	Overrides   Overrides
	Aliases     *alias.Table // names of models of the account's own; nil: none
	AutoCache   chat.Switch  // marks what vendors are to keep of prompts; not set: as each model is configured
	ShowCost    bool         // every reply says what it costs, as if its request asked for that
	Receipts    bool         // every call leaves a receipt, whether it asks for one or not
	Budgets     []Budget
	Runaway     Runaway
	Suspended   *Mark // not nil: requests are answered 423
	Deactivated *Mark // not nil: every key is refused until support restores them, new keys too

	CreatedAt time.Time
	Version   int64 // rises by one with every change, so that a late state never replaces a newer one
	Keys      []Key // keys that work: the master key, then sub-keys by age
}

// Mark records since when and why an account is suspended or deactivated.
type Mark struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Final is set when an account was terminated or closed. Unsuspend refuses it.
	Final bool `json:"-"`
}

// UpgradeHelps reports whether a higher plan would raise the account's requests a minute: there is one, and
// support has not set the limit.
func (a *Account) UpgradeHelps() bool {
	return a.Plan < Scale && a.Overrides.RequestsPerMinute == nil
}

// Master returns the account's master key. Every account has one; nil means that a was not loaded
// from the store.
func (a *Account) Master() *Key {
	for i := range a.Keys {
		if a.Keys[i].Master {
			return &a.Keys[i]
		}
	}
	return nil
}

// SubKeys returns how many sub-keys the account has.
func (a *Account) SubKeys() int {
	n := 0
	for _, k := range a.Keys {
		if !k.Master {
			n++
		}
	}
	return n
}

// Key returns a key by its id, or nil if the account has no such key.
func (a *Account) Key(id string) *Key {
	for i := range a.Keys {
		if a.Keys[i].ID == id {
			return &a.Keys[i]
		}
	}
	return nil
}

// Entry is one line of the audit log: who changed what, when and why.
type Entry struct {
	Seq       int64     `json:"seq"` // rises over all accounts; other nodes follow the log by it
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`  // who did it, such as owner or cli:root
	Action    string    `json:"action"` // what happened, such as key.create; empty: nothing did, and the entry is not stored
	AccountID string    `json:"-"`
	Detail    string    `json:"detail,omitempty"`
	Reason    string    `json:"reason,omitempty"` // as the operator gave it; empty for most actions
}

// maxEmail is how long an address may be, in bytes: the longest that mail servers accept.
const maxEmail = 254

// maxEcho is how much of a caller's text a message repeats, in bytes.
const maxEcho = 60

// ParseEmail checks an address and returns it in lower case, the form that accounts are found by.
// Code that takes an address from outside must call it first, so that nothing longer is counted,
// looked up or stored.
func ParseEmail(text string) (string, error) {
	wrong := func() error {
		return fault.New(fault.Invalid, "%q is not an e-mail address; expected a form like ana@example.com", excerpt.Of(text, maxEcho)).At("email")
	}
	if len(text) > maxEmail+16 { // with room for surrounding spaces
		return "", fault.New(fault.Invalid, "an e-mail address has at most %d characters", maxEmail).At("email")
	}
	// A few letters beyond ASCII become ASCII letters in lower case, such as the Kelvin sign.
	// Without this check two mailboxes would share an account, and the owner of one could take over
	// the other.
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII && unicode.ToLower(r) <= unicode.MaxASCII }) {
		return "", wrong()
	}
	lower := strings.ToLower(strings.TrimSpace(text))
	addr, err := mail.ParseAddress(lower)
	if err != nil || addr.Address != lower || len(lower) > maxEmail {
		return "", wrong()
	}
	return lower, nil
}

// ParseKeyName checks the display name of a sub-key and returns it without surrounding spaces.
func ParseKeyName(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.New(fault.Invalid, "a key's name has 1 to 100 bytes and no control characters").At("name")
	}
	return text, nil
}

// parseReason checks that a reason was given and returns it without surrounding spaces. Support
// reads it later in the audit log.
func parseReason(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || utf8.RuneCountInString(text) > 1000 {
		return "", fault.New(fault.Invalid, "a reason of 1 to 1000 characters is required; it is kept in the audit log").At("reason")
	}
	return text, nil
}
