package signin_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// circumstances describe the situation in which a person takes a step.
type circumstances struct {
	noPassword bool
	totp       bool
	via        signin.Step   // how their session was opened
	age        time.Duration // of their session
	omit       signin.Need   // what they do not have, of what the step needs
}

// scene is an account whose owner is at one session, with a second session and a pending link of each purpose.
type scene struct {
	*bench
	t           *testing.T
	acct        *account.Account
	here, other string // tokens of sessions
	links       map[signin.Purpose]string
	newcomer    string // an address that an account may be opened for
	newEmail    string // an address that the account may change to
	circumstances
}

const totpSecret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"

// storedPassword is the stored form of password. It is hashed once, because hashing is slow on purpose.
var storedPassword = sync.OnceValue(func() string { return signin.HashPassword(password) })

// newScene returns a scene with its own addresses, so that many can share a database: opening one is slow.
func newScene(t *testing.T, store *alltest.Store, c circumstances) *scene {
	t.Helper()
	name := strings.ToLower(rand.Text())
	s := &scene{bench: benchOn(store, nil), t: t, circumstances: c, links: map[signin.Purpose]string{}, newcomer: "new." + name + "@example.com", newEmail: name + "@new.example"}
	ctx := t.Context()
	var err error
	if s.acct, _, err = s.accounts.Create(ctx, "t", name+"@example.com", account.None, false); err != nil {
		t.Fatal(err)
	}
	if !c.noPassword {
		check(t, s.store.SetPassword(ctx, s.acct.ID, storedPassword(), ""))
	}
	check(t, s.store.SetTOTP(ctx, s.acct.ID, totpSecret, c.totp))
	s.here, s.other = s.session(c.via, c.age), s.session(signin.EnterPassword, time.Minute)
	for _, p := range []signin.Purpose{signin.SignUp, signin.Invite} {
		s.links[p] = s.link(p, "", s.newcomer)
	}
	for _, p := range []signin.Purpose{signin.SignIn, signin.Code, signin.Reset, signin.Device} {
		s.links[p] = s.link(p, s.acct.ID, s.acct.Email)
	}
	s.links[signin.Email] = s.link(signin.Email, s.acct.ID, s.newEmail)
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scene) session(via signin.Step, age time.Duration) string {
	s.t.Helper()
	token := rand.Text() + rand.Text()
	check(s.t, s.store.OpenSession(s.t.Context(), &signin.Session{
		ID: "ses_" + rand.Text(), Token: sha256.Sum256([]byte(token)), AccountID: s.acct.ID, Via: via,
		CreatedAt: s.now.Add(-age), SeenAt: s.now, ExpiresAt: s.now.Add(time.Hour),
	}, 100))
	return token
}

func (s *scene) link(p signin.Purpose, accountID, email string) string {
	s.t.Helper()
	token := rand.Text() + rand.Text()
	_, err := s.store.KeepLink(s.t.Context(), &signin.Link{Token: sha256.Sum256([]byte(token)), Purpose: p, AccountID: accountID, Email: email, ExpiresAt: s.now.Add(time.Hour)}, s.now, signin.Room{})
	check(s.t, err)
	return token
}

// lacks reports whether the person does not have something that the step needs.
func (s *scene) lacks(n signin.Need) bool { return s.omit&n != 0 }

// token returns the token of a pending link, or a token that nobody issued.
func (s *scene) token(p signin.Purpose) string {
	if s.lacks(signin.NeedsLink) {
		return rand.Text() + rand.Text()
	}
	return s.links[p]
}

// code returns the code that the app shows now.
func (s *scene) code() string {
	c, err := totp.GenerateCode(totpSecret, s.now)
	check(s.t, err)
	return c
}

// owner returns the person at the session, with their proof.
func (s *scene) owner() (signin.Owner, error) {
	token := s.here
	if s.lacks(signin.NeedsSession) {
		token = rand.Text() + rand.Text()
	}
	session, err := s.Session(s.t.Context(), token)
	if err != nil {
		return signin.Owner{}, err
	}
	o := signin.Owner{Account: s.acct, Session: session, Visit: here, Password: password, Code: s.code()}
	if s.lacks(signin.NeedsProof) {
		o.Password, o.Code = "not the password", "000000"
	}
	return o, nil
}

// finish enters the code if one is needed.
func (s *scene) finish(entry signin.Entry, err error) (signin.Entry, error) {
	if err != nil || entry.Code == "" {
		return entry, err
	}
	if entry.Session != "" {
		s.t.Error("a session was given before the code")
	}
	code := s.code()
	if s.lacks(signin.NeedsCode) {
		code = "000000"
	}
	return s.Finish(s.t.Context(), entry.Code, code, here)
}

// as runs a step as the person at the session.
func (s *scene) as(do func(o signin.Owner) error) (signin.Entry, error) {
	o, err := s.owner()
	if err != nil {
		return signin.Entry{}, err
	}
	return signin.Entry{}, do(o)
}

// steps has a function for each step, which takes it under the given circumstances.
var steps = map[signin.Step]func(ctx context.Context, s *scene) (signin.Entry, error){
	signin.AskAccount: func(ctx context.Context, s *scene) (signin.Entry, error) {
		s.settings.Open = !s.lacks(signin.NeedsOpen)
		return signin.Entry{}, s.SignUp(ctx, "other."+s.newcomer, "", here)
	},
	signin.OpenAccount: func(ctx context.Context, s *scene) (signin.Entry, error) {
		s.settings.Open = !s.lacks(signin.NeedsOpen)
		return join(ctx, s, signin.SignUp)
	},
	signin.AcceptInvite: func(ctx context.Context, s *scene) (signin.Entry, error) {
		s.settings.Open = false
		return join(ctx, s, signin.Invite)
	},
	signin.EnterPassword: func(ctx context.Context, s *scene) (signin.Entry, error) {
		typed := password
		if s.lacks(signin.NeedsPassword) {
			typed = "not the password"
		}
		return s.finish(s.SignIn(ctx, s.acct.Email, typed, here))
	},
	signin.EnterProvider: func(ctx context.Context, s *scene) (signin.Entry, error) {
		if s.lacks(signin.NeedsProvider) {
			return signin.Entry{}, errors.New("not verified: TestProvider shows that such an address comes to nobody's ears")
		}
		entry, key, err := s.SignInVerified(ctx, s.acct.Email, here)
		if key != "" {
			s.t.Error("the provider opened a second account")
		}
		return s.finish(entry, err)
	},
	signin.EnterCode: func(_ context.Context, s *scene) (signin.Entry, error) {
		return s.finish(signin.Entry{Code: s.links[signin.Code]}, nil)
	},
	signin.EnterLink: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.SignInByLink(ctx, s.token(signin.SignIn), here)
	},
	signin.AskReset: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return signin.Entry{}, s.RequestReset(ctx, s.acct.Email, here)
	},
	signin.ResetPassword: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.finish(s.ResetPassword(ctx, s.token(signin.Reset), "another long password", here))
	},
	signin.ChangePassword: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error { return s.ChangePassword(ctx, o, "another long password") })
	},
	signin.AskEmail: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error { return s.RequestEmail(ctx, o, s.newEmail) })
	},
	signin.ConfirmEmail: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			_, err := s.ConfirmEmail(ctx, s.token(signin.Email), o.Session)
			return err
		})
	},
	signin.EnrolTOTP: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			_, err := s.Enrol(ctx, o, "service")
			return err
		})
	},
	signin.ActivateTOTP: func(ctx context.Context, s *scene) (signin.Entry, error) {
		code := s.code()
		if s.lacks(signin.NeedsNewCode) {
			code = "000000"
		}
		return s.as(func(o signin.Owner) error {
			codes, err := s.Activate(ctx, o, code)
			if (len(codes) == 10) != (err == nil) {
				s.t.Errorf("%d recovery codes with %v", len(codes), err)
			}
			return err
		})
	},
	signin.RemoveTOTP: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error { return s.RemoveTOTP(ctx, o) })
	},
	signin.MakeRecovery: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			_, err := s.RecoveryCodes(ctx, o)
			return err
		})
	},
	signin.SignOut: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error { return s.SignOut(ctx, s.acct.ID, o.Session.ID) })
	},
	signin.SignOutEverywhere: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error { return s.SignOutEverywhere(ctx, s.acct.ID, o.Session.ID) })
	},
	signin.CloseAccount: func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			if err := s.Prove(ctx, signin.CloseAccount, o); err != nil {
				return err
			}
			return s.Erase(ctx, s.acct.ID)
		})
	},
}

func join(ctx context.Context, s *scene, p signin.Purpose) (signin.Entry, error) {
	made, err := s.Join(ctx, p, s.token(p), password, here)
	if err != nil {
		return signin.Entry{}, err
	}
	return made.Entry, nil
}

// left returns which sessions and links of a scene still work.
func (s *scene) left() (this, other bool, links string) {
	ctx := s.t.Context()
	_, err := s.Session(ctx, s.here)
	this = err == nil
	_, err = s.Session(ctx, s.other)
	other = err == nil
	for _, p := range []signin.Purpose{signin.SignIn, signin.Code, signin.Reset, signin.Email, signin.Device} {
		if _, err := s.Peek(ctx, p, s.links[p]); err == nil {
			links += string(p) + " "
		}
	}
	return this, other, links
}

// TestRules takes every step of the table, with and without each thing that it needs, and checks what it gave and
// what it ended.
func TestRules(t *testing.T) {
	t.Parallel()
	if len(steps) != len(signin.Rules()) {
		t.Errorf("%d steps are tested, want all %d", len(steps), len(signin.Rules()))
	}
	_, store := newStore(t)
	for _, rule := range signin.Rules() {
		do := steps[rule.Step]
		if do == nil {
			t.Errorf("no test takes the step %s", rule.Step)
			continue
		}
		t.Run(string(rule.Step), func(t *testing.T) {
			t.Parallel()
			for _, withCode := range []bool{false, true} {
				onlyOff := rule.Step == signin.EnrolTOTP || rule.Step == signin.ActivateTOTP
				onlyOn := rule.Step == signin.EnterCode || rule.Step == signin.MakeRecovery
				if withCode && onlyOff || !withCode && onlyOn {
					continue
				}
				c := circumstances{totp: withCode, via: signin.EnterPassword, age: time.Hour}
				s := newScene(t, store, c)
				entry, err := do(t.Context(), s)
				if err != nil {
					t.Fatalf("with %+v: %v", c, err)
				}
				checkGives(t, s, rule, entry)
				checkEnds(t, s, rule)
				for need := signin.NeedsOpen; need <= signin.NeedsProof; need <<= 1 {
					if rule.Needs&need == 0 || need == signin.NeedsCode && !withCode {
						continue
					}
					c := c
					c.omit = need
					s := newScene(t, store, c)
					if entry, err := do(t.Context(), s); err == nil || entry.Session != "" {
						t.Errorf("without need %b, two steps %t: session %t, %v, want a refusal", need, withCode, entry.Session != "", err)
					}
					if need == signin.NeedsCode && rule.Step == signin.ResetPassword {
						continue // the password is set; there is no session
					}
					if this, other, links := s.left(); !this || !other || links != "signin code reset email device " {
						t.Errorf("a refusal without need %b left sessions %t, %t and links %q, want all", need, this, other, links)
					}
				}
			}
		})
	}
}

func checkGives(t *testing.T, s *scene, rule signin.Rule, entry signin.Entry) {
	t.Helper()
	if want := rule.Gives&signin.GivesSession != 0; (entry.Session != "") != want || (entry.Device != "") != want {
		t.Errorf("gave a session: %t, and made the browser known: %t, want %t", entry.Session != "", entry.Device != "", want)
	}
	if entry.Session != "" {
		if _, err := s.Session(t.Context(), entry.Session); err != nil {
			t.Errorf("the session it gave = %v", err)
		}
	}
	links, notices := 0, 0
	for _, m := range s.posted {
		if linkIn.MatchString(m.Text) {
			links++
		} else if m.To == s.acct.Email && strings.Contains(m.Text, "contact support") {
			notices++
		}
	}
	if (links > 0) != (rule.Gives&signin.GivesMail != 0) || (notices > 0) != (rule.Gives&signin.GivesNotice != 0) || links+notices != len(s.posted) {
		t.Errorf("it mailed %+v", s.posted)
	}
	_, err := s.accounts.Find(t.Context(), s.newcomer)
	if (err == nil) != (rule.Gives&signin.GivesAccount != 0) {
		t.Errorf("the new account: %v", err)
	}
}

func checkEnds(t *testing.T, s *scene, rule signin.Rule) {
	t.Helper()
	this, other, links := s.left()
	if ends := rule.Ends&signin.EndsThis != 0; this == ends && rule.Step != signin.ResetPassword { // its own session is the new one
		t.Errorf("this session is open: %t, want %t", this, !ends)
	}
	if ends := rule.Ends&signin.EndsOthers != 0; other == ends {
		t.Errorf("the other session is open: %t, want %t", other, !ends)
	}
	want := "signin code reset email device "
	switch {
	case rule.Ends&signin.EndsLinks != 0:
		want = ""
	case rule.Step == signin.EnterLink:
		want = "code reset email device " // its own is used up
	case rule.Step == signin.EnterCode:
		want = "signin reset email device "
	}
	if links != want {
		t.Errorf("links that are still good: %q, want %q", links, want)
	}
}

// TestProof takes every step that needs fresh proof in every kind of session.
func TestProof(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		circumstances
		edit func(o *signin.Owner) // what the person does not type
		want fault.Kind            // 0: it passes
	}{
		{"the password", circumstances{}, nil, 0},
		{"no password typed", circumstances{}, func(o *signin.Owner) { o.Password = "" }, fault.Invalid},
		{"a fresh session is no password", circumstances{via: signin.EnterProvider}, func(o *signin.Owner) { o.Password = "" }, fault.Invalid},
		{"password and code", circumstances{totp: true}, nil, 0},
		{"password without code", circumstances{totp: true}, func(o *signin.Owner) { o.Code = "" }, fault.Unauthenticated},
		{"code without password", circumstances{totp: true}, func(o *signin.Owner) { o.Password = "" }, fault.Invalid},
		{"no password to have, fresh session", circumstances{noPassword: true, via: signin.EnterProvider, age: 14 * time.Minute}, nil, 0},
		{"no password to have, old session", circumstances{noPassword: true, via: signin.EnterProvider, age: 15 * time.Minute}, nil, fault.Forbidden},
		{"no password to have, session of unknown origin", circumstances{noPassword: true, age: 24 * time.Hour}, nil, fault.Forbidden},
		{"no password to have, fresh session and code", circumstances{noPassword: true, totp: true, via: signin.EnterProvider}, nil, 0},
		{"no password to have, fresh session without code", circumstances{noPassword: true, totp: true, via: signin.EnterProvider}, func(o *signin.Owner) { o.Code = "" }, fault.Unauthenticated},
		{"the operator's link, everything lost", circumstances{totp: true, via: signin.EnterLink}, func(o *signin.Owner) { o.Password, o.Code = "", "" }, 0},
		{"the operator's link, a while ago", circumstances{totp: true, via: signin.EnterLink, age: time.Hour}, func(o *signin.Owner) { o.Password, o.Code = "", "" }, fault.Invalid},
		{"the operator's link, no password to have, a while ago", circumstances{noPassword: true, via: signin.EnterLink, age: time.Hour}, nil, fault.Forbidden},
	}
	_, store := newStore(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, store, tt.circumstances)
			for _, rule := range signin.Rules() {
				if rule.Needs&signin.NeedsProof == 0 {
					continue
				}
				s.now = s.now.Add(30 * time.Second) // for the next code
				o, err := s.owner()
				check(t, err)
				o.Session.CreatedAt = s.now.Add(-tt.age)
				if tt.edit != nil {
					tt.edit(&o)
				}
				err = s.Prove(t.Context(), rule.Step, o)
				if tt.want == 0 && err != nil || tt.want != 0 && !fault.Is(err, tt.want) {
					t.Errorf("Prove(%s) = %v, want %v", rule.Step, err, tt.want)
				}
			}
		})
	}
}

// A proof holds for ten minutes from when it was given, in its session, and ends with it and with the password. It is in the
// account's log.
func TestProofHolds(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{totp: true, via: signin.EnterPassword, age: time.Hour})
	ctx := t.Context()
	// at returns the person at a session who types nothing, or the whole proof.
	at := func(token string, typed bool) signin.Owner {
		t.Helper()
		session, err := s.Session(ctx, token)
		check(t, err)
		o := signin.Owner{Account: s.acct, Session: session, Visit: here}
		if typed {
			o.Password, o.Code = password, s.code()
		}
		return o
	}
	asked := func(when, token string) {
		t.Helper()
		o := at(token, false)
		if err := s.Prove(ctx, signin.AskEmail, o); !fault.Is(err, fault.Invalid) {
			t.Errorf("Prove %s = %v, want it to ask for the password", when, err)
		}
		login, err := s.Login(ctx, s.acct.ID)
		check(t, err)
		if d := s.Demand(login, o.Session); !d.Password || !d.Code || !s.ProvedUntil(o.Session).IsZero() {
			t.Errorf("Demand %s = %+v until %s, want everything", when, d, s.ProvedUntil(o.Session))
		}
	}
	asked("before any proof", s.here)
	half := at(s.here, true)
	half.Code = "000000"
	if err := s.Prove(ctx, signin.AskEmail, half); err == nil {
		t.Error("half a proof passes")
	}
	asked("after half a proof", s.here)

	check(t, s.Prove(ctx, signin.AskEmail, at(s.here, true)))
	given := s.now
	for _, minutes := range []time.Duration{0, 5, 9} {
		s.now = given.Add(minutes * time.Minute)
		o := at(s.here, false)
		if err := s.Prove(ctx, signin.AskPasskey, o); err != nil {
			t.Errorf("Prove %d minutes later = %v, want the proof to hold", minutes, err)
		}
		if until := s.ProvedUntil(o.Session); !until.Equal(given.Add(10 * time.Minute)) {
			t.Errorf("a change after %d minutes holds the proof until %s, want ten minutes from %s", minutes, until, given)
		}
	}
	asked("in another session", s.other)
	s.now = given.Add(10 * time.Minute)
	asked("ten minutes later", s.here)

	// With the password the proof ends.
	check(t, s.Prove(ctx, signin.AskEmail, at(s.here, true)))
	check(t, s.ChangePassword(ctx, at(s.here, false), "another long password"))
	asked("after a change of the password", s.here)

	log, err := s.accounts.History(ctx, s.acct.ID, 0, 100)
	check(t, err)
	proofs := 0
	for _, e := range log {
		if e.Action == "session.prove" && e.Detail == "password and code" && e.Actor == "owner" {
			proofs++
		}
	}
	if proofs != 2 {
		t.Errorf("the account's log has %d proofs, want the two that were given", proofs)
	}
}

// The table in the documentation is the table that the service uses.
func TestRulesInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/teams/signin.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := signin.RulesTable(); !strings.Contains(string(page), table) {
		t.Errorf("docs/teams/signin.md does not hold the table of the rules; it should be\n%s", table)
	}
}

// A link is bound to the address that it was made for, even if somebody changes the address without the service.
func TestLinksKeepToTheirAddress(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{via: signin.EnterPassword})
	ctx := t.Context()
	if _, err := s.accounts.SetEmail(ctx, "t", s.acct.ID, s.newEmail); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ResetPassword(ctx, s.links[signin.Reset], "another long password", here); !fault.Is(err, fault.NotFound) {
		t.Errorf("ResetPassword by a link to another address = %v, want not found", err)
	}
	if _, err := s.SignInByLink(ctx, s.links[signin.SignIn], here); !fault.Is(err, fault.NotFound) {
		t.Errorf("SignInByLink by a link to another address = %v, want not found", err)
	}
	for _, token := range []string{"", "x", strings.Repeat("A", 1<<20)} {
		if _, err := s.Peek(ctx, signin.Reset, token); !fault.Is(err, fault.NotFound) {
			t.Errorf("Peek of a token of %d bytes = %v, want not found", len(token), err)
		}
		if _, err := s.Session(ctx, token); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("Session of a token of %d bytes = %v, want unauthenticated", len(token), err)
		}
	}
}
