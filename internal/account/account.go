// Package account holds accounts, their plans and their keys, and every way these may change.
//
// Each transition of the contract's tables is one method of Accounts. It runs inside one transaction
// of the Store, leaves an entry in the audit log, and is published to OnChange before it returns, so
// that whoever authenticates knows it by then. Who may call what is not decided here; see admission.
package account

import (
	"net/mail"
	"strings"
	"time"
	"unicode"

	"sluice/internal/excerpt"
	"sluice/internal/fault"
)

// Account is an account as it stood at one Version. It is never changed once published.
type Account struct {
	ID      string
	Email   string
	Plan    Plan
	Granted bool // the plan was set by staff: no period, no charge, until changed
	Staff   bool

	Overrides   Overrides
	Suspended   *Mark // requests are answered 423
	Deactivated *Mark // every key is off until support restores it, new ones too

	CreatedAt time.Time
	Version   int64 // rises by one with every change
	Keys      []Key // the live ones: the master key, then sub-keys by age
}

// Mark says since when and why an account is in a state.
type Mark struct {
	At     time.Time
	Reason string
	// Final is set on the suspension of a terminated or closed account: nothing lifts it.
	Final bool
}

// Master is the account's master key.
func (a *Account) Master() *Key {
	for i := range a.Keys {
		if a.Keys[i].Master {
			return &a.Keys[i]
		}
	}
	return nil
}

// SubKeys counts the account's sub-keys.
func (a *Account) SubKeys() int {
	n := 0
	for _, k := range a.Keys {
		if !k.Master {
			n++
		}
	}
	return n
}

// key finds a live key by its id.
func (a *Account) key(id string) (int, *Key) {
	for i := range a.Keys {
		if a.Keys[i].ID == id {
			return i, &a.Keys[i]
		}
	}
	return -1, nil
}

// Entry is one line of the audit log: who changed what, when and why.
type Entry struct {
	Seq       int64
	At        time.Time
	Actor     string
	Action    string
	AccountID string
	Detail    string
	Reason    string
}

// maxEmail is how long an address may be, in bytes: the longest that mail servers accept.
const maxEmail = 254

// maxEcho is how much of a caller's text a message repeats, in bytes.
const maxEcho = 60

// ParseEmail checks an address and returns it in the form accounts are found by. Whoever takes an address from
// outside calls it before anything else, so that nothing longer is counted, looked up or kept.
func ParseEmail(text string) (string, error) {
	wrong := func() error {
		return fault.New(fault.Invalid, "%q is not an e-mail address; expected a form like ana@example.com", excerpt.Of(text, maxEcho)).At("email")
	}
	if len(text) > maxEmail+16 { // with room for surrounding spaces
		return "", fault.New(fault.Invalid, "an e-mail address has at most %d characters", maxEmail).At("email")
	}
	// A few letters beyond ASCII become ASCII ones in lower case, such as the Kelvin sign. Two mailboxes would
	// share an account.
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

// parseName checks the display name of a sub-key.
func parseName(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.New(fault.Invalid, "a key's name has 1 to 100 bytes and no control characters").At("name")
	}
	return text, nil
}

// parseReason checks that a reason was given: support reads it later.
func parseReason(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 1000 {
		return "", fault.New(fault.Invalid, "a reason of 1 to 1000 bytes is required; it is kept in the audit log").At("reason")
	}
	return text, nil
}
