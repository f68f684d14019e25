package signin_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/passkey"
	"sluice/internal/kit/passkey/passkeytest"
)

// site is that of the bench.
var site = passkey.Site{Origin: "https://x.example", ID: "x.example"}

// device gives the account a passkey, without the steps that the owner takes.
func (s *scene) device() *passkeytest.Device {
	s.t.Helper()
	d := passkeytest.New(passkey.ES256)
	r, err := passkey.ParseMade(d.Make(site, "-", s.acct.ID, nil))
	check(s.t, err)
	c, err := site.New(r)
	check(s.t, err)
	check(s.t, s.store.AddPasskey(s.t.Context(), &signin.Passkey{Credential: *c, AccountID: s.acct.ID, Name: "phone", CreatedAt: s.now}, 10))
	return d
}

// proof answers a challenge of the session. It spoils the signature if the person has no proof.
func (s *scene) proof(o signin.Owner, d *passkeytest.Device) string {
	s.t.Helper()
	ask, err := s.AskProof(s.t.Context(), o)
	check(s.t, err)
	return d.Use(site, ask.Challenge, func(p *passkeytest.Parts) {
		if s.lacks(signin.NeedsProof) {
			p.Spoil = func(_, signature []byte) { signature[len(signature)-1] ^= 1 }
		}
	})
}

// enter signs in with a passkey alone. edit changes what the device says; it may be nil.
func (s *scene) enter(d *passkeytest.Device, edit func(*passkeytest.Parts)) (signin.Entry, error) {
	ask, token, err := s.AskEnter(s.t.Context(), here)
	check(s.t, err)
	return s.SignInPasskey(s.t.Context(), token, d.Use(site, ask.Challenge, edit), here)
}

func init() {
	steps[signin.EnterPasskey] = func(_ context.Context, s *scene) (signin.Entry, error) {
		return s.enter(s.device(), func(p *passkeytest.Parts) {
			if s.lacks(signin.NeedsPasskey) {
				p.Flags = passkeytest.Present
			}
		})
	}
	steps[signin.AskPasskey] = func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			_, err := s.AskPasskey(ctx, o, "phone")
			return err
		})
	}
	steps[signin.AddPasskey] = func(ctx context.Context, s *scene) (signin.Entry, error) {
		return s.as(func(o signin.Owner) error {
			ask, err := s.AskPasskey(ctx, o, "phone")
			check(s.t, err)
			challenge := ask.Challenge
			if s.lacks(signin.NeedsNewPasskey) {
				challenge = strings.Repeat("A", len(challenge))
			}
			codes, err := s.AddPasskey(ctx, o, " phone ", passkeytest.New(passkey.EdDSA).Make(site, challenge, ask.User, nil))
			if (len(codes) == 10) != (err == nil && !s.totp) {
				s.t.Errorf("%d recovery codes with %v", len(codes), err)
			}
			return err
		})
	}
	steps[signin.RemovePasskey] = func(ctx context.Context, s *scene) (signin.Entry, error) {
		d := s.device()
		return s.as(func(o signin.Owner) error {
			o.Passkey = s.proof(o, d)
			list, err := s.Passkeys(ctx, s.acct.ID)
			check(s.t, err)
			return s.RemovePasskey(ctx, o, list[0].Handle())
		})
	}
}

// A passkey is the second step after a password, the proof for changes, and a way in of its own. Each challenge is good
// once, for one use, in the place that it was made for.
func TestPasskeyUses(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{via: signin.EnterPassword, age: time.Hour})
	ctx := t.Context()
	d := s.device()
	refused := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Unauthenticated) || fault.From(err).Param != "passkey" {
			t.Errorf("%s = %v, want a refusal of the passkey", what, err)
		}
	}
	second := func() string {
		t.Helper()
		entry, err := s.SignIn(ctx, s.acct.Email, password, here)
		check(t, err)
		if entry.Session != "" || entry.Code == "" {
			t.Fatal("a password alone opens an account with a passkey")
		}
		return entry.Code
	}
	token := second()
	ask, err := s.AskFinish(ctx, token)
	check(t, err)
	if len(ask.Known) != 1 || ask.Site != "x.example" || ask.Verify {
		t.Errorf("AskFinish = %+v, want the one passkey", ask)
	}
	reply := d.Use(site, ask.Challenge, func(p *passkeytest.Parts) { p.Flags = passkeytest.Present; p.User = "" })
	_, err = s.FinishPasskey(ctx, second(), reply, here)
	refused("FinishPasskey of another attempt", err)
	if _, err := s.FinishPasskey(ctx, token, reply, here); err != nil {
		t.Errorf("FinishPasskey = %v", err)
	}
	if list, err := s.Passkeys(ctx, s.acct.ID); err != nil || len(list) != 1 || !list[0].UsedAt.Equal(s.now) {
		t.Errorf("Passkeys = %+v, %v, want one that was used now", list, err)
	}
	_, err = s.FinishPasskey(ctx, second(), reply, here)
	refused("a reply that was used", err)

	// Proof in a session, and not in another.
	o, err := s.owner()
	check(t, err)
	o.Code, o.Passkey = "", s.proof(o, d)
	elsewhere := o
	elsewhere.Session, err = s.Session(ctx, s.other)
	check(t, err)
	refused("proof of another session", s.Prove(ctx, signin.ChangePassword, elsewhere))
	check(t, s.Prove(ctx, signin.ChangePassword, o))
	s.now = s.now.Add(10 * time.Minute) // the proof does not hold any more
	refused("proof a second time", s.Prove(ctx, signin.ChangePassword, o))
	o.Password, o.Passkey = "wrong", s.proof(o, d)
	if err := s.Prove(ctx, signin.ChangePassword, o); !fault.Is(err, fault.Invalid) {
		t.Errorf("a passkey without the password = %v, want a refusal", err)
	}
	// A code of an app that is not turned on is no proof: only the passkey and recovery codes are.
	o.Password, o.Passkey, o.Code = password, "", s.code()
	if err := s.Prove(ctx, signin.ChangePassword, o); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a code of an app that is off = %v, want a refusal", err)
	}

	// The way in of its own.
	ask, token, err = s.AskEnter(ctx, here)
	check(t, err)
	if len(ask.Known) != 0 || !ask.Verify {
		t.Errorf("AskEnter = %+v, want no passkeys and verification", ask)
	}
	reply = d.Use(site, ask.Challenge, nil)
	_, err = s.SignInPasskey(ctx, strings.Repeat("A", 52), reply, here)
	refused("SignInPasskey in another browser", err)
	entry, err := s.SignInPasskey(ctx, token, reply, here)
	check(t, err)
	if session, err := s.Session(ctx, entry.Session); err != nil || session.AccountID != s.acct.ID || !session.ProvedAt.Equal(s.now) {
		t.Errorf("the session = %+v, %v, want a proved one", session, err)
	}
	_, err = s.SignInPasskey(ctx, token, reply, here)
	refused("SignInPasskey a second time", err)
	for what, edit := range map[string]func(p *passkeytest.Parts){
		"no user":         func(p *passkeytest.Parts) { p.User = "" },
		"another user":    func(p *passkeytest.Parts) { p.User = "acct_other" },
		"not verified":    func(p *passkeytest.Parts) { p.Flags = passkeytest.Present },
		"another origin":  func(p *passkeytest.Parts) { p.Origin = "https://evil.example" },
		"unknown passkey": func(p *passkeytest.Parts) { p.ID = []byte("unknown") },
		"no challenge":    func(p *passkeytest.Parts) { p.Challenge = "" },
	} {
		_, err := s.enter(d, edit)
		refused(what, err)
	}
	_, err = s.SignInPasskey(ctx, token, "not JSON", here)
	refused("no reply", err)

	// A passkey of somebody else is no second step here.
	other := newScene(t, store, circumstances{})
	theirs := other.device()
	token = second()
	ask, err = s.AskFinish(ctx, token)
	check(t, err)
	_, err = s.FinishPasskey(ctx, token, theirs.Use(site, ask.Challenge, nil), here)
	refused("somebody else's passkey", err)

	// Five minutes are enough for everybody.
	ask, token, err = s.AskEnter(ctx, here)
	check(t, err)
	reply = d.Use(site, ask.Challenge, nil)
	s.now = s.now.Add(5 * time.Minute)
	_, err = s.SignInPasskey(ctx, token, reply, here)
	refused("after five minutes", err)
}

// A challenge is used by one of many at the same moment.
func TestPasskeyChallengeOnce(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{})
	d := s.device()
	ask, token, err := s.AskEnter(t.Context(), here)
	check(t, err)
	reply := d.Use(site, ask.Challenge, nil)
	var in atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.SignInPasskey(t.Context(), token, reply, here); err == nil {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 {
		t.Errorf("%d of 8 got in with one challenge, want 1", in.Load())
	}
}

// A counter that goes back is refused, written down and told.
func TestPasskeyCounter(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{})
	d := s.device()
	d.Counter = 4
	for _, tt := range []struct {
		counter uint32
		passes  bool
	}{{5, true}, {5, false}, {4, false}, {0, false}, {6, true}} {
		_, err := s.enter(d, func(p *passkeytest.Parts) { p.Counter = tt.counter })
		if (err == nil) != tt.passes {
			t.Errorf("counter %d = %v, want it to pass: %t", tt.counter, err, tt.passes)
		}
	}
	told := 0
	for _, m := range s.posted {
		if m.To == s.acct.Email && m.Subject == "A passkey was refused" {
			told++
		}
	}
	history, err := s.accounts.History(t.Context(), s.acct.ID, 0, 10)
	written := slices.DeleteFunc(history, func(e account.Entry) bool { return e.Action != "passkey.refused" })
	if err != nil || told != 3 || len(written) != 3 {
		t.Errorf("a counter that went back three times was told %d times and written down %d times, %v", told, len(written), err)
	}
}

// Recovery codes work for an account whose only second factor is a passkey; support removes it for somebody who lost both.
func TestPasskeyLost(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{via: signin.EnterPassword, age: time.Hour})
	ctx := t.Context()
	o, err := s.owner()
	check(t, err)
	ask, err := s.AskPasskey(ctx, o, "phone")
	check(t, err)
	codes, err := s.AddPasskey(ctx, o, "phone", passkeytest.New(passkey.ES256).Make(site, ask.Challenge, ask.User, nil))
	if err != nil || len(codes) != 10 {
		t.Fatalf("AddPasskey = %d codes, %v, want ten", len(codes), err)
	}
	enter := func() signin.Entry {
		t.Helper()
		entry, err := s.SignIn(ctx, s.acct.Email, password, here)
		check(t, err)
		return entry
	}
	if _, err := s.Finish(ctx, enter().Code, codes[0], here); err != nil {
		t.Errorf("a recovery code = %v", err)
	}
	o.Code = codes[1]
	if more, err := s.RecoveryCodes(ctx, o); err != nil || len(more) != 10 {
		t.Errorf("RecoveryCodes = %d, %v, want ten", len(more), err)
	}
	check(t, s.ResetTOTP(ctx, s.acct))
	if entry := enter(); entry.Session == "" {
		t.Error("after support removed the passkey, the password alone does not sign in")
	}
	if list, err := s.Passkeys(ctx, s.acct.ID); err != nil || len(list) != 0 {
		t.Errorf("Passkeys = %v, %v, want none", list, err)
	}
	d := s.device()
	check(t, s.Erase(ctx, s.acct.ID))
	if _, err := s.enter(d, nil); err == nil {
		t.Error("a passkey opens an account that was erased")
	}
}

// Names and numbers of passkeys are bounded, one passkey has one owner, and a service without a name has none.
func TestPasskeyBounds(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{via: signin.EnterLink})
	ctx := t.Context()
	o, err := s.owner()
	check(t, err)
	for _, name := range []string{"", "  ", strings.Repeat("a", 61), "a\nb", "\xff"} {
		if _, err := s.AskPasskey(ctx, o, name); !fault.Is(err, fault.Invalid) {
			t.Errorf("AskPasskey(%q) = %v, want invalid", name, err)
		}
	}
	d := passkeytest.New(passkey.ES256)
	add := func(d *passkeytest.Device) error {
		ask, err := s.AskPasskey(ctx, o, strings.Repeat("a", 60))
		if err != nil {
			return err
		}
		_, err = s.AddPasskey(ctx, o, "x", d.Make(site, ask.Challenge, ask.User, nil))
		return err
	}
	check(t, add(d))
	if err := add(d); !fault.Is(err, fault.Conflict) {
		t.Errorf("the same passkey again = %v, want a conflict", err)
	}
	for range signin.MaxPasskeys - 1 {
		check(t, add(passkeytest.New(passkey.EdDSA)))
	}
	if err := add(passkeytest.New(passkey.EdDSA)); !fault.Is(err, fault.Conflict) {
		t.Errorf("one more = %v, want a conflict", err)
	}
	if err := s.RemovePasskey(ctx, o, "unknown"); !fault.Is(err, fault.NotFound) {
		t.Errorf("RemovePasskey of an unknown one = %v, want not found", err)
	}
	s.settings.Origin = "https://192.0.2.1"
	if _, _, err := s.AskEnter(ctx, here); !fault.Is(err, fault.Conflict) {
		t.Errorf("AskEnter at an IP address = %v, want a conflict", err)
	}
}
