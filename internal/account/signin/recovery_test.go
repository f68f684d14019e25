package signin_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// A recovery code takes the place of the app once, on the way in and as proof. New codes replace those before.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{totp: true, via: signin.EnterPassword, age: time.Hour})
	ctx := t.Context()
	o, err := s.owner()
	check(t, err)
	codes, err := s.RecoveryCodes(ctx, o)
	if err != nil || len(codes) != 10 {
		t.Fatalf("RecoveryCodes = %q, %v, want ten", codes, err)
	}
	enter := func(code string) error {
		t.Helper()
		entry, err := s.SignIn(ctx, s.acct.Email, password, here)
		for fault.Is(err, fault.Unavailable) { // eight at once may have to wait too long for their turn to hash
			entry, err = s.SignIn(ctx, s.acct.Email, password, here)
		}
		check(t, err)
		_, err = s.Finish(ctx, entry.Code, code, here)
		return err
	}
	if err := enter(" " + strings.ToUpper(codes[0]) + " "); err != nil {
		t.Errorf("signing in with a code = %v, want it to pass", err)
	}
	if err := enter(codes[0]); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("signing in with the same code again = %v, want a refusal", err)
	}
	if err := enter(strings.ReplaceAll(codes[1], "-", "")); err != nil {
		t.Errorf("a code without dashes = %v, want it to pass", err)
	}
	if n, err := s.RecoveryCodesLeft(ctx, s.acct.ID); n != 8 || err != nil {
		t.Errorf("codes left = %d, %v, want 8", n, err)
	}
	// At the same time, one of many gets in.
	var in atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if enter(codes[2]) == nil {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 1 {
		t.Errorf("%d of 8 got in with one code, want 1", in.Load())
	}
	other := newScene(t, store, circumstances{totp: true, via: signin.EnterPassword, age: time.Hour})
	entry, err := other.SignIn(ctx, other.acct.Email, password, here)
	check(t, err)
	if _, err := other.Finish(ctx, entry.Code, codes[3], here); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a code at another account = %v, want a refusal", err)
	}
	// As proof, for new codes: those before are gone.
	s.now = s.now.Add(time.Hour) // the attempts of the last minutes are forgotten
	o.Code = codes[4]
	renewed, err := s.RecoveryCodes(ctx, o)
	check(t, err)
	if err := enter(codes[5]); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a replaced code = %v, want a refusal", err)
	}
	if err := enter(renewed[5]); err != nil {
		t.Errorf("a new code = %v, want it to pass", err)
	}
	// Turning two steps off and on again makes others.
	s.now = s.now.Add(10 * time.Minute) // the proof does not hold any more
	o.Code = renewed[6]
	check(t, s.RemoveTOTP(ctx, o))
	if _, err := s.RecoveryCodes(ctx, o); !fault.Is(err, fault.Conflict) {
		t.Errorf("RecoveryCodes without two steps = %v, want a conflict", err)
	}
	used := 0
	for _, m := range s.posted {
		if strings.Contains(m.Subject, "recovery code was used") {
			used++
		}
	}
	if used != 6 {
		t.Errorf("the owner was told of %d uses, want 6", used)
	}
}
