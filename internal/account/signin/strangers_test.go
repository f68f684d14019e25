package signin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// from returns a visit from one of many places.
func from(i int) signin.Visit { return signin.Visit{Remote: fmt.Sprintf("198.51.%d.%d", i/250, i%250)} }

// mailsTo returns how many mails were sent to an address.
func (b *bench) mailsTo(email string) int {
	n := 0
	for _, m := range b.posted {
		if m.To == email {
			n++
		}
	}
	return n
}

// Strangers who request links for somebody's address neither fill the mailbox nor lock the owner out: while no
// more mail is sent, the mailbox has links that still work.
func TestStrangersCannotBlockReset(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	b.posted = nil
	for i := range 40 {
		if err := b.RequestReset(ctx, "ana@example.com", from(i)); err != nil {
			t.Fatalf("RequestReset from place %d = %v, want nobody told", i, err)
		}
	}
	if n := b.mailsTo("ana@example.com"); n != 5 {
		t.Errorf("%d mails went to one address, want 5", n)
	}
	if err := b.RequestReset(ctx, "ana@example.com", here); err != nil {
		t.Errorf("the owner's own request = %v", err)
	}
	// The browser that the owner has used before gets a link.
	known := signin.Visit{Remote: from(1).Remote, Device: made.Device}
	if err := b.RequestReset(ctx, "ana@example.com", known); err != nil || b.mailsTo("ana@example.com") != 6 {
		t.Errorf("a request from a known browser = %v, %d mails in all, want 6", err, b.mailsTo("ana@example.com"))
	}
	_, token := b.mailed(t, "ana@example.com")
	b.now = b.now.Add(59 * time.Minute)
	found := linkIn.FindStringSubmatch(b.posted[0].Text) // the first one that strangers requested
	if _, err := b.Peek(ctx, signin.Reset, found[2]); err != nil {
		t.Errorf("the first link, while no more are sent = %v, want it still good", err)
	}
	entry, err := b.ResetPassword(ctx, token, "another long password", here)
	if err != nil || entry.Session == "" {
		t.Errorf("ResetPassword = %+v, %v, want a session", entry, err)
	}
	b.now, b.posted = b.now.Add(2*time.Minute), nil
	if err := b.RequestReset(ctx, "ana@example.com", here); err != nil || b.mailsTo("ana@example.com") != 1 {
		t.Errorf("a request in the next hour = %v, %d mails, want one", err, b.mailsTo("ana@example.com"))
	}
}

// A place that asks for too much gets an error, and does not affect others.
func TestMailIsLimited(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	for range 5 {
		if err := b.SignUp(ctx, "ana@example.com", "", here); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.SignUp(ctx, "ana@example.com", "", here); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a sixth mail to one address = %v, want too many", err)
	}
	for i := range 15 {
		if err := b.RequestReset(ctx, "p"+strings.Repeat("x", i)+"@example.com", here); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RequestReset(ctx, "one.more@example.com", here); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a 21st mail from one place = %v, want too many", err)
	}
	if err := b.RequestReset(ctx, "one.more@example.com", from(1)); err != nil {
		t.Errorf("a mail from another place = %v", err)
	}
}

// Requests for unknown addresses leave nothing in the database, and invalid addresses are refused at once.
func TestStrangersLeaveNothing(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	huge := strings.Repeat("a", 1<<20) + "@example.com"
	for i := range 20 {
		if err := b.RequestReset(ctx, fmt.Sprint("nobody", i, "@example.com"), here); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(t, "one_time_links"); n != 0 {
		t.Errorf("%d links are kept for addresses without an account, want none", n)
	}
	for range 200 { // far beyond every limit: they were never counted
		for name, err := range map[string]error{
			"SignUp": b.SignUp(ctx, huge, "", here), "RequestReset": b.RequestReset(ctx, huge, here),
			"SignIn":         func() error { _, err := b.SignIn(ctx, huge, password, here); return err }(),
			"SignInVerified": func() error { _, _, err := b.SignInVerified(ctx, huge, here); return err }(),
		} {
			if !fault.Is(err, fault.Invalid) || len(err.Error()) > 200 {
				t.Fatalf("%s(a huge address) = %.300v, want a short refusal", name, err)
			}
		}
	}
	for i := range 60 {
		if err := b.SignUp(ctx, "bob@example.com", "", from(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(t, "one_time_links"); n != 5 {
		t.Errorf("%d links are kept for one address, want 5", n)
	}
	b.now = b.now.Add(25 * time.Hour)
	if err := b.DropExpired(ctx); err != nil || b.count(t, "one_time_links") != 0 {
		t.Errorf("DropExpired = %v, %d links are left", err, b.count(t, "one_time_links"))
	}
}

// count returns the number of rows of a table.
func (b *bench) count(t *testing.T, table string) (n int) {
	t.Helper()
	n, err := b.rows(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Strangers who guess from many places do not lock the owner out: the owner can still sign in with a known browser
// and with a link by mail.
func TestStrangersCannotLockOut(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	made := b.join(t, "ana@example.com")
	other := b.join(t, "bob@example.com")
	for i := range 100 {
		if _, err := b.SignIn(ctx, "ana@example.com", strings.Repeat("x", 300), from(i)); !fault.Is(err, fault.Unauthenticated) { // too long to be hashed
			t.Fatalf("guess %d = %v", i, err)
		}
	}
	elsewhere := from(5000)
	_, err := b.SignIn(ctx, "ana@example.com", password, elsewhere)
	if !fault.Is(err, fault.RateLimited) || !strings.Contains(err.Error(), "link mailed") {
		t.Errorf("SignIn in a new browser = %v, want too many, and the way in by mail", err)
	}
	for name, device := range map[string]string{"no": "", "an invented": strings.Repeat("A", 52), "another account's": other.Device} {
		if _, err := b.SignIn(ctx, "ana@example.com", password, signin.Visit{Remote: elsewhere.Remote, Device: device}); !fault.Is(err, fault.RateLimited) {
			t.Errorf("SignIn with %s browser's token = %v, want too many", name, err)
		}
	}
	known := signin.Visit{Remote: elsewhere.Remote, Device: made.Device}
	entry, err := b.SignIn(ctx, "ana@example.com", password, known)
	if err != nil || entry.Device != made.Device {
		t.Errorf("SignIn in a known browser = %+v, %v, want in", entry, err)
	}
	// Somebody who stole the token of a known browser cannot guess forever.
	refused := false
	for range 11 {
		_, err := b.SignIn(ctx, "ana@example.com", strings.Repeat("x", 300), known)
		refused = fault.Is(err, fault.RateLimited)
	}
	if !refused {
		t.Error("a known browser may guess without end")
	}
	if err := b.RequestReset(ctx, "ana@example.com", elsewhere); err != nil {
		t.Fatal(err)
	}
	_, token := b.mailed(t, "ana@example.com")
	if entry, err := b.ResetPassword(ctx, token, "another long password", elsewhere); err != nil || entry.Session == "" {
		t.Errorf("ResetPassword = %+v, %v, want a session", entry, err)
	}
	if _, err := b.SignIn(ctx, "ana@example.com", "another long password", elsewhere); err != nil {
		t.Errorf("SignIn after a reset = %v, want the guesses forgotten", err)
	}
	if _, err := b.Peek(ctx, signin.Device, made.Device); !fault.Is(err, fault.NotFound) {
		t.Errorf("a browser known before the reset = %v, want it forgotten", err)
	}
}

// The number of guesses at codes is limited, however often somebody with the password starts again.
func TestCodesAreLimited(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	s := newScene(t, store, circumstances{totp: true, via: signin.EnterPassword})
	ctx, guesses := t.Context(), 0
	for range 8 { // quarters of an hour, each with ten guesses
		link := s.link(signin.Code, s.acct.ID, s.acct.Email)
		for range 12 {
			_, err := s.Finish(ctx, link, strings.Repeat("0", 16), here)
			if fault.Is(err, fault.Unauthenticated) {
				guesses++
			} else if !fault.Is(err, fault.RateLimited) {
				t.Fatalf("Finish = %v", err)
			}
		}
		s.now = s.now.Add(15 * time.Minute)
	}
	if guesses != 50 {
		t.Errorf("%d guesses at codes in a day, want 50", guesses)
	}
}
