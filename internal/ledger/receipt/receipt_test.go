package receipt_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

// keyring is a KeyStore in memory.
type keyring struct {
	mu   sync.Mutex
	keys []receipt.Key
}

func (k *keyring) ReceiptKeys(context.Context) ([]receipt.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.keys), nil
}

func (k *keyring) AddReceiptKey(_ context.Context, key receipt.Key, first bool, retired []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if first && len(k.keys) > 0 {
		return nil
	}
	for i := range k.keys {
		if slices.Contains(retired, k.keys[i].ID) {
			k.keys[i].Private = nil
		}
	}
	k.keys = append(k.keys, key)
	return nil
}

func newRing(t testing.TB) (*receipt.Ring, *keyring) {
	store := &keyring{}
	ring := receipt.NewRing(store)
	if err := ring.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ring, store
}

func setOf(t testing.TB, r *receipt.Ring) receipt.Set {
	t.Helper()
	set, err := receipt.ParseSet(r.Set())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// settlement is one with everything that a receipt says.
func settlement(account, id string) usage.Settlement {
	cost := price.Nano(1_234_567)
	return usage.Settlement{
		ID: id, At: time.UnixMilli(1_790_000_000_123), AccountID: account, KeyID: "key_1", Door: usage.DoorMessages,
		ModelAsked: "a \"b\"", ModelUsed: "lab/large", Provider: "lab", Status: 200, End: usage.EndComplete,
		Tokens: chat.Usage{Prompt: 100, Cached: 20, Completion: 30}, RequestMilli: 1500, UnitMilli: 250,
		Cost: &cost, Margin: 433, Terms: usage.Terms{Version: "v1", Uses: []price.Use{{Name: "web_search", Milli: 2000}}},
		Receipt: &usage.Receipt{Request: sha256.Sum256([]byte("request")), Reply: sha256.Sum256([]byte("reply")), Replied: true},
	}
}

// make1 makes and signs a receipt.
func make1(t testing.TB, n *receipt.Notary, s usage.Settlement) string {
	t.Helper()
	n.State(&s)
	n.Link(&s)
	signed := n.Deliver(s.Receipt)
	if signed == "" {
		t.Fatal("there is no receipt")
	}
	return signed
}

func problem(err error) receipt.Problem {
	if f, ok := errors.AsType[*receipt.Fault](err); ok {
		return f.Problem
	}
	return ""
}

func TestStatement(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	n := receipt.NewNotary(ring, func() string { return "https://a.example" })
	first, err := setOf(t, ring).Check(make1(t, n, settlement("acc", "req_1")))
	if err != nil {
		t.Fatal(err)
	}
	second, err := setOf(t, ring).Check(make1(t, n, settlement("acc", "req_2")))
	if err != nil {
		t.Fatal(err)
	}
	cost := json.Number("0.001235")
	want := receipt.Claims{
		Version: 1, Issuer: "https://a.example", Account: "acc", ID: "req_2", Key: "key_1", At: 1_790_000_000_123, Door: "messages",
		Request: receipt.Hash([]byte("request")), Reply: receipt.Hash([]byte("reply")), Asked: `a "b"`, Served: "lab/large", Upstream: "lab",
		Buckets:      []receipt.Bucket{{"input", "100", "vendor"}, {"cache_read", "20", "vendor"}, {"output", "30", "vendor"}, {"web_search", "2", "vendor"}},
		PriceVersion: "v1", Cost: &cost, Debited: receipt.Debited{Requests: "1.5", Units: "0.25"}, End: "complete", Status: 200,
		IssuedAt: second.IssuedAt, Month: receipt.MonthOf(time.Unix(second.IssuedAt, 0)), Chain: first.Chain, N: 2, Previous: first.Hash,
	}
	if diff := cmp.Diff(want, second.Claims); diff != "" {
		t.Errorf("the claims differ (-want +got):\n%s", diff)
	}
	if first.N != 1 || first.Previous != "" {
		t.Errorf("the first receipt is number %d after %q", first.N, first.Previous)
	}
}

// A changed byte, a wrong key and a missing link are told apart.
func TestDamageIsToldApart(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	other, _ := newRing(t)
	keys := setOf(t, ring)
	n := receipt.NewNotary(ring, func() string { return "" })
	var signed []string
	var list []*receipt.Receipt
	for _, id := range []string{"1", "2", "3", "4"} {
		signed = append(signed, make1(t, n, settlement("acc", id)))
		r, err := keys.Check(signed[len(signed)-1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	// Every byte that is changed to any other letter of the alphabet is noticed. A changed header can name another key.
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	payload := strings.IndexByte(signed[0], '.')
	for i := range signed[0] {
		b := []byte(signed[0])
		b[i] = letters[(strings.IndexByte(letters, b[i])+1)%len(letters)]
		_, err := keys.Check(string(b))
		if p := problem(err); p != receipt.Damaged && (i >= payload || p != receipt.WrongKey && p != receipt.Unread) {
			t.Fatalf("a changed byte %d of %d is %q (%v), want %q", i, len(b), p, err, receipt.Damaged)
		}
	}
	if _, err := keys.Check(make1(t, receipt.NewNotary(other, func() string { return "" }), settlement("acc", "1"))); problem(err) != receipt.WrongKey {
		t.Errorf("a receipt with another key is %v, want %q", err, receipt.WrongKey)
	}
	if _, err := receipt.CheckChains(append(list[:1:1], list[2:]...), false); problem(one(err)) != receipt.Missing {
		t.Errorf("a missing link is %v, want %q", err, receipt.Missing)
	}
	if _, err := receipt.CheckChains(list[1:], true); problem(one(err)) != receipt.Missing {
		t.Errorf("a chain without its first link is %v, want %q", err, receipt.Missing)
	}
	// A link that was replaced by another one that the operator signed.
	twin := *list[1]
	twin.Hash = list[0].Hash[:10] + list[1].Hash[10:]
	if _, err := receipt.CheckChains([]*receipt.Receipt{list[0], &twin, list[2]}, true); problem(one(err)) != receipt.Missing {
		t.Errorf("a replaced link is %v, want %q", err, receipt.Missing)
	}
	if _, err := receipt.CheckChains([]*receipt.Receipt{list[0], list[1], &twin}, true); problem(one(err)) != receipt.Missing {
		t.Errorf("two links with one number are %v, want %q", err, receipt.Missing)
	}
	ends, err := receipt.CheckChains(append(slices.Clone(list), list[0]), true) // the same twice is no problem
	if err != nil {
		t.Fatal(err)
	}
	root := receipt.Root(ends)
	if err := receipt.CheckMonth(list, root); err != nil {
		t.Error(err)
	}
	if err := receipt.CheckMonth(list[:3], root); problem(err) != receipt.OtherRoot {
		t.Errorf("a month without its last receipt is %v, want %q", err, receipt.OtherRoot)
	}
	if problem(list[0].CheckRequest([]byte("other"))) != receipt.OtherBody || problem(list[0].CheckReply([]byte("other"))) != receipt.OtherBody {
		t.Error("another body is not noticed")
	}
	for _, body := range []string{"reply", "id: 3\nreply", ": keep-alive\nid: 3\nreply", ": keep-alive\n: keep-alive\nreply"} {
		if err := list[0].CheckReply([]byte(body)); err != nil {
			t.Errorf("CheckReply(%q) = %v", body, err)
		}
	}
}

// one returns the first of joined errors.
func one(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of errors.Join itself
		return joined.Unwrap()[0]
	}
	return err
}

// A JWS of another kind is no receipt, whoever signed it.
func TestOtherStatements(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	for _, header := range []string{`{"alg":"none","kid":"k","typ":"sluice-receipt"}`, `{"alg":"EdDSA","kid":"k","typ":"JWT"}`} {
		text := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(`{"v":1}`))
		text += "." + enc.EncodeToString(ed25519.Sign(private, []byte(text)))
		if _, err := (receipt.Set{"k": public}).Check(text); problem(err) != receipt.Unread {
			t.Errorf("Check(%s) = %v, want %q", header, err, receipt.Unread)
		}
	}
}

// Calls that end at the same time get places of their own, and a new month begins new chains.
func TestLinksOfManyCalls(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	keys := setOf(t, ring)
	n := receipt.NewNotary(ring, func() string { return "" })
	var mu sync.Mutex
	var list []*receipt.Receipt
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 20 {
				r, err := keys.Check(make1(t, n, settlement([]string{"one", "two"}[i%2], strings.Repeat("x", k+1))))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				list = append(list, r)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	ends, err := receipt.CheckChains(list, false)
	if err != nil || len(ends) != 2 || ends[0].N != 80 || ends[1].N != 80 {
		t.Errorf("the chains end with %+v, %v, want two of 80", ends, err)
	}
}

// A new month begins new chains, with the name of the process and from number 1. A clock that is set back does not go back to the
// month before: the list of a month has all receipts that name it.
func TestNewMonth(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	keys := setOf(t, ring)
	n := receipt.NewNotary(ring, func() string { return "" })
	now := time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC)
	n.SetClock(func() time.Time { return now })
	var got []string
	for _, step := range []time.Duration{0, time.Second, time.Second, -time.Minute} {
		now = now.Add(step)
		r, err := keys.Check(make1(t, n, settlement("acc", "1")))
		if err != nil {
			t.Fatal(err)
		}
		if issued := receipt.MonthOf(time.Unix(r.IssuedAt, 0)); issued != r.Month {
			t.Errorf("a receipt of %s was issued in %s", r.Month, issued)
		}
		got = append(got, fmt.Sprint(r.Month, " ", r.N, " ", r.Previous != ""))
	}
	if want := []string{"2026-11 1 false", "2026-12 1 false", "2026-12 2 true", "2026-12 3 true"}; !slices.Equal(got, want) {
		t.Errorf("the receipts are %q, want %q", got, want)
	}
}

// Nobody gets a receipt of a settlement that is not in the journal: the statement may have no place in a chain, or be lost with the
// process.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	n := receipt.NewNotary(ring, func() string { return "" })
	books := usage.NewBooks(t.TempDir(), nil, &usage.BooksOptions{Notary: n})
	if err := books.Open(); err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{true, false} {
		if !open {
			if err := books.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := settlement("acc", "1")
		books.Record(s)
		if signed := n.Deliver(s.Receipt); (signed != "") != open {
			t.Errorf("Deliver = %q with an open journal: %t", signed, open)
		}
	}
}

// What a rotation does to keys, and to what they have signed.
func TestRotate(t *testing.T) {
	t.Parallel()
	ring, store := newRing(t)
	n := receipt.NewNotary(ring, func() string { return "" })
	old := make1(t, n, settlement("acc", "1"))
	for range 2 {
		if _, err := ring.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all, current := ring.All()
	if len(all) != 3 || current != all[0].ID {
		t.Fatalf("%d keys, of which %s signs; want 3, and the first to sign until the others are known everywhere", len(all), current)
	}
	// Two minutes later.
	for i := range store.keys {
		store.keys[i].From = store.keys[i].From.Add(-3 * time.Minute)
	}
	if err := ring.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, current = ring.All(); current != all[2].ID {
		t.Errorf("%s signs, want the newest", current)
	}
	if _, err := ring.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if store.keys[0].Private != nil || store.keys[1].Private != nil || store.keys[2].Private == nil {
		t.Error("a rotation must delete the private halves of all keys but the one that signs")
	}
	if _, err := setOf(t, ring).Check(old); err != nil {
		t.Errorf("what a retired key signed is %v", err)
	}
}

// ends is an archive that has one chain.
type ends struct{ receipt.Archive }

func (ends) ReceiptChains(context.Context, string, string) ([]receipt.Chain, error) {
	return []receipt.Chain{{Chain: "c", N: 3, Hash: "h"}}, nil
}

// The root of a month is final when all nodes have stored what they had in their journals at its end.
func TestFinalRoot(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	log := receipt.NewLog(ends{}, func(context.Context) {}, nil)
	for after, want := range map[time.Duration]bool{-time.Second: false, time.Second: false, 59 * time.Minute: false, time.Hour: true} {
		m, err := log.Root(t.Context(), "acc", "2026-11", end.Add(after))
		if err != nil || m.Final != want || m.Receipts != 3 {
			t.Errorf("%v after the end of the month the root is %+v, %v, want final %t", after, m, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	const signed = "eyJhbGciOiJFZERTQSJ9.eyJ2IjoxfQ.c2ln"
	for _, text := range []string{signed, signed + "\n", `{"receipt":"` + signed + `"}`, "HTTP/1.1 200 OK\r\nX-Sluice-Receipt: " + signed + "\r\n\r\n", "data: [DONE]\n\n" + receipt.Comment + signed + "\n\n"} {
		if got := receipt.Find([]byte(text)); !slices.Equal(got, []string{signed}) {
			t.Errorf("Find(%q) = %q", text, got)
		}
	}
}

// What a receipt adds to a call: hashes, the statement and its link; and what the signature adds to one that is delivered.
func BenchmarkReceipt(b *testing.B) {
	ring, _ := newRing(b)
	n := receipt.NewNotary(ring, func() string { return "https://api.example.com" })
	request, reply := make([]byte, 500), make([]byte, 1000)
	state := func() *usage.Receipt {
		s := settlement("acc_0123456789", "0123456789abcdef")
		s.Receipt = &usage.Receipt{Request: sha256.Sum256(request), Reply: sha256.Sum256(reply), Replied: true}
		n.State(&s)
		n.Link(&s)
		return s.Receipt
	}
	b.Run("stated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			state()
		}
	})
	b.Run("delivered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.Deliver(state())
		}
	})
}
