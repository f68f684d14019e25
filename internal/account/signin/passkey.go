package signin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/passkey"
)

const (
	challengeLife = 5 * time.Minute
	// MaxPasskeys is how many passkeys an account may have.
	MaxPasskeys = 10
	// maxPasskeyName is how long the name of a passkey may be, in bytes.
	maxPasskeyName = 60
)

// What a challenge may be used for. A challenge for one is refused for the others.
const (
	toAdd    = "add"    // in a session
	toProve  = "prove"  // in a session
	toFinish = "finish" // the second step of signing in, bound to the token of the first
	toEnter  = "enter"  // without a password, bound to a token in the browser that asked
)

// Passkey is a passkey of an account.
type Passkey struct {
	passkey.Credential
	AccountID string
	Name      string // chosen by the owner
	CreatedAt time.Time
	UsedAt    time.Time // zero: never
}

// Handle returns the short name that pages and forms use for the passkey.
func (p *Passkey) Handle() string {
	sum := sha256.Sum256(p.ID)
	return hex.EncodeToString(sum[:8])
}

// PasskeyStore keeps passkeys. Each method is one transaction.
type PasskeyStore interface {
	// AddPasskey stores a passkey. It returns fault.Conflict if the account has most already, or anybody has this one.
	AddPasskey(ctx context.Context, p *Passkey, most int) error
	// Passkeys returns the passkeys of an account, the oldest first.
	Passkeys(ctx context.Context, accountID string) ([]Passkey, error)
	// FindPasskey returns the passkey with a credential id, or fault.NotFound.
	FindPasskey(ctx context.Context, credential []byte) (*Passkey, error)
	// UsePasskey records a use and reports whether the counter went on since the last one. Of several callers with one
	// counter only one gets true. Authenticators that do not count always say 0, which is fine.
	UsePasskey(ctx context.Context, credential []byte, counter uint32, at time.Time) (bool, error)
	// DeletePasskeys deletes one passkey of an account, or all of them if credential is nil, and returns how many.
	DeletePasskeys(ctx context.Context, accountID string, credential []byte) (int64, error)
}

// Ask is what the page's script needs to make or to use a passkey, as JSON.
type Ask struct {
	Challenge string   `json:"challenge"`
	Site      string   `json:"site"`
	User      string   `json:"user,omitempty"`
	Email     string   `json:"email,omitempty"`
	Known     []string `json:"known"`            // the account's passkeys, in base64url
	Verify    bool     `json:"verify,omitempty"` // the device must verify its user
}

// PasskeySite returns the site that passkeys are for. It reports false if the address of the pages allows none.
func (d *Service) PasskeySite() (passkey.Site, bool) { return passkey.SiteAt(d.settings().Origin) }

// Passkeys returns the passkeys of an account, the oldest first.
func (d *Service) Passkeys(ctx context.Context, accountID string) ([]Passkey, error) {
	return d.store.Passkeys(ctx, accountID)
}

// Pending returns how the owner of an account can take the second step of signing in. token is the one of the first.
func (d *Service) Pending(ctx context.Context, token string) (Login, error) {
	l, err := d.Peek(ctx, Code, token)
	if err != nil {
		return Login{}, err
	}
	return d.store.FindLogin(ctx, l.AccountID)
}

// AskPasskey begins to add a passkey, with proof. The name is checked before the proof, so that a typing mistake costs
// no attempt.
func (d *Service) AskPasskey(ctx context.Context, o Owner, name string) (*Ask, error) {
	if _, err := passkeyName(name); err != nil {
		return nil, err
	}
	if err := d.Prove(ctx, AskPasskey, o); err != nil {
		return nil, err
	}
	ask, err := d.ask(ctx, toAdd, o.Session.ID, o.Account.ID)
	if err != nil {
		return nil, err
	}
	// Told before the device makes a passkey that would be of no use.
	if len(ask.Known) >= MaxPasskeys {
		return nil, fault.New(fault.Conflict, "An account can have %d passkeys. Remove one first.", MaxPasskeys)
	}
	ask.User, ask.Email = o.Account.ID, o.Account.Email
	return ask, nil
}

// AddPasskey keeps the passkey that the browser made after AskPasskey. If it is the first second factor of the account,
// it returns recovery codes.
func (d *Service) AddPasskey(ctx context.Context, o Owner, name, reply string) (recovery []string, err error) {
	if name, err = passkeyName(name); err != nil {
		return nil, err
	}
	r, err := passkey.ParseMade(reply)
	if err != nil {
		return nil, notAccepted(err)
	}
	if err := d.answered(ctx, r.Challenge(), toAdd, o.Session.ID, o.Account.ID); err != nil {
		return nil, err
	}
	site, _ := d.PasskeySite()
	made, err := site.New(r)
	if err != nil {
		return nil, notAccepted(err)
	}
	login, err := d.store.FindLogin(ctx, o.Account.ID)
	if err != nil {
		return nil, err
	}
	// The codes are stored first: whoever has two steps has codes.
	if !login.TwoSteps() {
		if recovery, err = d.newRecovery(ctx, o.Account.ID); err != nil {
			return nil, err
		}
	}
	if err := d.end(ctx, AddPasskey, o.Account.ID, o.Session.ID); err != nil {
		return nil, err
	}
	if err := d.store.AddPasskey(ctx, &Passkey{Credential: *made, AccountID: o.Account.ID, Name: name, CreatedAt: d.clock()}, MaxPasskeys); err != nil {
		return nil, err
	}
	if err := d.record(ctx, o.Account.ID, "passkey.add", name); err != nil {
		return nil, err
	}
	d.tell(AddPasskey, o.Account.Email, o.Visit, "A passkey was added", "The passkey “"+name+"” was added to your account. It can be used to sign in, and a password alone is no longer enough.")
	return recovery, nil
}

// RemovePasskey removes a passkey by its handle. It needs proof, because a thief at an open session would remove those of
// the owner.
func (d *Service) RemovePasskey(ctx context.Context, o Owner, handle string) error {
	list, err := d.store.Passkeys(ctx, o.Account.ID)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Handle() == handle {
			return d.removePasskey(ctx, o, &list[i])
		}
	}
	return fault.New(fault.NotFound, "That passkey no longer exists.")
}

func (d *Service) removePasskey(ctx context.Context, o Owner, p *Passkey) error {
	if err := d.Prove(ctx, RemovePasskey, o); err != nil {
		return err
	}
	if err := d.end(ctx, RemovePasskey, o.Account.ID, o.Session.ID); err != nil {
		return err
	}
	if _, err := d.store.DeletePasskeys(ctx, o.Account.ID, p.ID); err != nil {
		return err
	}
	if err := d.record(ctx, o.Account.ID, "passkey.remove", p.Name); err != nil {
		return err
	}
	d.tell(RemovePasskey, o.Account.Email, o.Visit, "A passkey was removed", "The passkey “"+p.Name+"” was removed from your account and no longer signs you in.")
	return nil
}

// AskProof begins to prove with a passkey who sits at a session.
func (d *Service) AskProof(ctx context.Context, o Owner) (*Ask, error) {
	return d.ask(ctx, toProve, o.Session.ID, o.Account.ID)
}

// AskFinish begins the second step of signing in with a passkey. token is the one of the first step.
func (d *Service) AskFinish(ctx context.Context, token string) (*Ask, error) {
	l, err := d.Peek(ctx, Code, token)
	if err != nil {
		return nil, fault.New(fault.Unauthenticated, "Your sign-in timed out. Sign in again.")
	}
	return d.ask(ctx, toFinish, token, l.AccountID)
}

// AskEnter begins to sign in without a password. The browser keeps token, which SignInPasskey takes.
func (d *Service) AskEnter(ctx context.Context, v Visit) (ask *Ask, token string, err error) {
	if err := d.Knock(ctx, v); err != nil {
		return nil, "", err
	}
	token = newToken()
	if ask, err = d.ask(ctx, toEnter, token, ""); err == nil {
		ask.Verify = true
	}
	return ask, token, err
}

// SignInPasskey signs in with a passkey alone: the device has verified its user, so that there are two factors in one.
func (d *Service) SignInPasskey(ctx context.Context, token, reply string, v Visit) (Entry, error) {
	if err := d.Knock(ctx, v); err != nil {
		return Entry{}, err
	}
	k, err := d.usePasskey(ctx, reply, toEnter, token, "")
	if err != nil {
		return Entry{}, err
	}
	p, err := d.person(ctx, k.AccountID)
	if err != nil {
		return Entry{}, err
	}
	return d.letIn(ctx, EnterPasskey, p, v)
}

// bound returns what a challenge is bound to, in a form that fits where other links have their address.
func bound(use, to string) string {
	sum := hash(to)
	return use + " " + base64.RawURLEncoding.EncodeToString(sum[:])
}

// ask makes a challenge for one use, bound to a session or to an attempt to sign in. accountID is empty if it is not
// known who is there.
func (d *Service) ask(ctx context.Context, use, to, accountID string) (*Ask, error) {
	site, ok := d.PasskeySite()
	if !ok {
		return nil, fault.New(fault.Conflict, "Passkeys need a service with a domain name.")
	}
	ask := &Ask{Site: site.ID, Known: []string{}}
	if accountID != "" {
		list, err := d.store.Passkeys(ctx, accountID)
		if err != nil {
			return nil, err
		}
		for i := range list {
			ask.Known = append(ask.Known, base64.RawURLEncoding.EncodeToString(list[i].ID))
		}
	}
	var err error
	ask.Challenge, _, err = d.link(ctx, Link{Purpose: Challenge, AccountID: accountID, Email: bound(use, to)}, challengeLife, 0)
	return ask, err
}

// answered uses a challenge up, if it was made for this use, here and for this account.
func (d *Service) answered(ctx context.Context, challenge, use, to, accountID string) error {
	// Looked at first, so that somebody else cannot use up a challenge that is not theirs.
	l, err := d.Peek(ctx, Challenge, challenge)
	if err == nil && (l.Email != bound(use, to) || l.AccountID != accountID) {
		return tooLate()
	}
	if err == nil {
		_, err = d.take(ctx, Challenge, challenge)
	}
	if fault.Is(err, fault.NotFound) {
		return tooLate()
	}
	return err
}

// tooLate returns the fault for a challenge that is not good, or not here.
func tooLate() error {
	return fault.New(fault.Unauthenticated, "That took too long, or the passkey was used on another page. Try again.").At("passkey")
}

// usePasskey checks the use of a passkey and returns whose it is. accountID is whose it must be. If it is empty, anybody's
// will do who was verified by their device.
func (d *Service) usePasskey(ctx context.Context, reply, use, to, accountID string) (*Passkey, error) {
	r, err := passkey.ParseUsed(reply)
	if err != nil {
		return nil, notAccepted(err)
	}
	if err := d.answered(ctx, r.Challenge(), use, to, accountID); err != nil {
		return nil, err
	}
	k, err := d.store.FindPasskey(ctx, r.Credential())
	if fault.Is(err, fault.NotFound) {
		return nil, notAccepted(err)
	}
	if err != nil {
		return nil, err
	}
	// An authenticator that chose the passkey itself must name its user; one that was told which to use need not.
	if accountID != "" && k.AccountID != accountID || (accountID == "" || r.User() != "") && r.User() != k.AccountID {
		return nil, notAccepted(nil)
	}
	site, _ := d.PasskeySite()
	counter, err := site.Check(r, &k.Credential, accountID == "")
	if err != nil {
		return nil, notAccepted(err)
	}
	ok, err := d.store.UsePasskey(ctx, k.ID, counter, d.clock())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, d.copied(ctx, k)
	}
	return k, nil
}

// copied refuses a passkey whose counter went back: there may be two copies of it. It tells the owner.
func (d *Service) copied(ctx context.Context, k *Passkey) error {
	if err := d.record(ctx, k.AccountID, "passkey.refused", k.Name); err != nil {
		return err
	}
	if acct, err := d.accounts.Find(ctx, k.AccountID); err == nil {
		d.tell(RemovePasskey, acct.Email, Visit{}, "A passkey was refused", "The passkey “"+k.Name+"” was used, but its sign-in counter went backwards, so somebody may have a copy of it. Remove it on your account page and add a new one.")
	}
	return notAccepted(nil)
}

// record writes an entry to the account's log.
func (d *Service) record(ctx context.Context, accountID, action, detail string) error {
	_, err := d.accounts.Record(ctx, actor, accountID, action, detail)
	return err
}

// notAccepted returns the same fault for everything that can be wrong with a passkey. cause is for the log and may be nil.
func notAccepted(cause error) error {
	f := fault.New(fault.Unauthenticated, "This passkey was not accepted. Try again, or sign in another way.").At("passkey")
	if cause != nil {
		return f.Because(cause)
	}
	return f
}

// passkeyName checks the name of a passkey.
func passkeyName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > maxPasskeyName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.New(fault.Invalid, "Give the passkey a name of 1 to %d bytes, without control characters.", maxPasskeyName).At("name")
	}
	return name, nil
}
