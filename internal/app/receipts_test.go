package app_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/ledger/receipt"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
)

// receiptDoors are all doors with a reply that is relayed, whole and streamed.
var receiptDoors = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`},
	{"chat stream", "/v1/chat/completions", `{"model":"sandbox/small","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"responses", "/v1/responses", `{"model":"sandbox/small","input":"hi"}`},
	{"responses stream", "/v1/responses", `{"model":"sandbox/small","input":"hi","stream":true}`},
	{"messages", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`},
	{"messages stream", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"embeddings", "/v1/embeddings", `{"model":"sandbox/embed","input":"hi"}`},
}

// asking returns a request that asks for a receipt, with further headers by name and value.
func (n *node) asking(key, path, body string, header ...string) *http.Request {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.scheme+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Sluice-Receipt", "1")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// attested makes a request that asks for a receipt.
func (n *node) attested(key, path, body string) reply {
	n.t.Helper()
	return n.answered(n.asking(key, path, body))
}

// receiptKeys returns the keys that the node publishes.
func (n *node) receiptKeys() receipt.Set {
	n.t.Helper()
	keys, err := receipt.ParseSet([]byte(n.get("/.well-known/sluice-receipts.json", "").body))
	if err != nil {
		n.t.Fatal(err)
	}
	return keys
}

// checked returns the receipt in a text, whose signature must be right.
func checked(t *testing.T, keys receipt.Set, text string) *receipt.Receipt {
	t.Helper()
	found := receipt.Find([]byte(text))
	if len(found) != 1 {
		t.Fatalf("%d receipts in %q, want 1", len(found), text)
	}
	r, err := keys.Check(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every door gives a receipt that fits its request and its reply, and is stored. A call that does not ask for one has none, and a
// refused one neither.
func TestReceiptsOfAllDoors(t *testing.T) {
	t.Parallel()
	n := newSite(t, "sandbox: true\npublic_url: http://gateway.example\n").start(t)
	key, keys := n.OwnerKey(), n.receiptKeys()
	var all []*receipt.Receipt
	for _, door := range receiptDoors {
		r := n.attested(key, door.path, door.body)
		streamed := strings.HasSuffix(door.name, "stream")
		text := r.header.Get("X-Sluice-Receipt")
		if streamed {
			if text != "" {
				t.Errorf("%s: the header of a stream has a receipt", door.name)
			}
			_, comment, _ := strings.Cut(r.body, "\n"+receipt.Comment)
			if text = comment; !strings.HasSuffix(comment, "\n\n") || strings.Count(comment, "\n") != 2 {
				t.Errorf("%s: the stream ends with %q, want a comment", door.name, comment)
			}
		}
		c := checked(t, keys, text)
		if err := errors.Join(c.CheckRequest([]byte(door.body)), c.CheckReply([]byte(r.body))); err != nil {
			t.Errorf("%s: %v", door.name, err)
		}
		if c.CheckReply([]byte(r.body+" ")) == nil && !streamed || c.CheckRequest([]byte(door.body+" ")) == nil {
			t.Errorf("%s: the receipt fits another request or reply", door.name)
		}
		id := r.header.Get("X-Request-Id")
		if c.ID != id || c.Door != strings.Fields(door.name)[0] || c.End != "complete" || c.Issuer != "http://gateway.example" || len(c.Buckets) == 0 || c.Debited.Requests == "" {
			t.Errorf("%s: the receipt says %+v", door.name, c.Claims)
		}
		// What is stored is the same statement.
		if stored := checked(t, keys, n.get("/v1/receipts/"+id, key).body); stored.Hash != c.Hash {
			t.Errorf("%s: the stored receipt is %+v, want %+v", door.name, stored, c)
		}
		all = append(all, c)
	}
	ends, err := receipt.CheckChains(all, true)
	if err != nil || len(ends) != 1 || ends[0].N != int64(len(receiptDoors)) {
		t.Errorf("the chains are %+v, %v, want one of %d", ends, err, len(receiptDoors))
	}

	// Neither a call that does not ask nor a refused one has a receipt.
	plain := n.request("POST", receiptDoors[0].path, key, receiptDoors[0].body)
	refused := n.attested(key, receiptDoors[0].path, `{"model":"no/such","messages":[{"role":"user","content":"hi"}]}`)
	for _, r := range []reply{plain, refused} {
		if r.header.Get("X-Sluice-Receipt") != "" || n.get("/v1/receipts/"+r.header.Get("X-Request-Id"), key).status != 404 {
			t.Errorf("%d %s has a receipt", r.status, r.body)
		}
	}
	n.checkMonth(key, keys, all)
}

// checkMonth checks the list of the month, by small pages, and its root.
func (n *node) checkMonth(key string, keys receipt.Set, want []*receipt.Receipt) {
	n.t.Helper()
	month := receipt.MonthOf(time.Now())
	var got []*receipt.Receipt
	for cursor := ""; ; {
		var page struct {
			Data []struct{ Receipt string } `json:"data"`
			Next *string                    `json:"next"`
		}
		r := n.get("/v1/receipts?limit=3&month="+month+"&cursor="+cursor, key)
		if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != 200 {
			n.t.Fatalf("a list = %d %s, %v", r.status, r.body, err)
		}
		for _, d := range page.Data {
			got = append(got, checked(n.t, keys, d.Receipt))
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	var root struct{ Root string }
	r := n.get("/v1/receipts/root?month="+month, key)
	if err := json.Unmarshal([]byte(r.body), &root); err != nil || r.status != 200 {
		n.t.Fatalf("the root = %d %s, %v", r.status, r.body, err)
	}
	if len(got) != len(want) {
		n.t.Fatalf("%d receipts are listed, want %d", len(got), len(want))
	}
	if err := receipt.CheckMonth(got, root.Root); err != nil {
		n.t.Error(err)
	}
	if err := receipt.CheckMonth(got[:len(got)-1], root.Root); err == nil {
		n.t.Error("a month without its last receipt has the same root")
	}
}

// With the account's setting, every call has a receipt, which does not go out with the reply. A restart begins a new chain.
func TestReceiptsOfAnAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sandbox: true\n")
	n := s.start(t)
	key := n.OwnerKey()
	on := true
	a := must[admin.Account](n, "account.set-replies", admin.NewReplies{Actor: "t", Ref: "owner@localhost", Receipts: &on})
	if !a.Receipts {
		t.Fatalf("the account is %+v, want receipts", a)
	}
	var all []*receipt.Receipt
	for range 2 {
		for range 2 {
			r := n.request("POST", receiptDoors[1].path, key, receiptDoors[1].body)
			if strings.Contains(r.body, receipt.Comment) {
				t.Errorf("a receipt goes out with the reply: %s", r.body)
			}
			c := checked(t, n.receiptKeys(), n.get("/v1/receipts/chatcmpl-"+r.header.Get("X-Request-Id"), key).body)
			if err := c.CheckReply([]byte(r.body)); err != nil {
				t.Error(err)
			}
			all = append(all, c)
		}
		n.stop()
		n = s.start(t)
	}
	n.checkMonth(key, n.receiptKeys(), all)
	if ends, err := receipt.CheckChains(all, true); err != nil || len(ends) != 2 {
		t.Errorf("the chains are %+v, %v, want 2", ends, err)
	}
}

// A new key is published at once, signs later, and what was signed before stays valid.
func TestReceiptKeysRotate(t *testing.T) {
	t.Parallel()
	n := newSite(t, "sandbox: true\n").start(t)
	before := n.receiptKeys()
	must[admin.ReceiptKeys](n, "receipt.rotate", admin.Empty{})
	after := n.receiptKeys()
	if len(before) != 1 || len(after) != 2 {
		t.Fatalf("%d keys, then %d, want 1 and 2", len(before), len(after))
	}
	r := n.attested(n.OwnerKey(), receiptDoors[0].path, receiptDoors[0].body)
	c := checked(t, after, r.header.Get("X-Sluice-Receipt"))
	if before[c.KeyID] == nil {
		t.Error("the new key signs at once, while other nodes do not publish it")
	}
}

// A video has a receipt when it is finished, of the request that made it and of its file.
func TestReceiptOfAVideo(t *testing.T) {
	t.Parallel()
	n := newSite(t, "sandbox: true\n").start(t)
	key := n.OwnerKey()
	for _, door := range []struct{ path, body string }{{videoJobs, clip}} {
		j := n.await(key, readVideo(t, n.attested(key, door.path, door.body)).ID)
		file := n.get("/v1/video/generations/"+j.Generations[0].ID+"/content/video", key)
		c := checked(t, n.receiptKeys(), n.get("/v1/receipts/"+j.ID, key).body)
		if err := errors.Join(c.CheckRequest([]byte(door.body)), c.CheckReply([]byte(file.body))); err != nil {
			t.Error(err)
		}
		if c.Door != "videos" || c.Chain != j.ID || c.N != 1 {
			t.Errorf("the receipt says %+v", c.Claims)
		}
		n.checkMonth(key, n.receiptKeys(), []*receipt.Receipt{c, nil}[:1])
	}
}

// A reply that is repeated for its Idempotency-Key has the receipt of the call that was made, whole and streamed, and also if the
// repeat does not ask for one.
func TestReceiptOfARepeat(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sandbox: true\n")
	n := s.start(t)
	key, keys := n.OwnerKey(), n.receiptKeys()
	var all []*receipt.Receipt
	for i, door := range receiptDoors {
		idem := []string{"Idempotency-Key", door.name}
		first := n.answered(n.asking(key, door.path, door.body, idem...))
		whole := first.header.Get("X-Sluice-Receipt")
		if (whole == "") != strings.HasSuffix(door.name, "stream") {
			t.Fatalf("%s: the first reply has the receipt %q", door.name, whole)
		}
		all = append(all, checked(t, keys, whole+" "+first.body))
		if i == 0 { // a restart changes nothing
			n.stop()
			n = s.start(t)
		}
		for _, asks := range []string{"1", "0"} {
			r := n.answered(n.asking(key, door.path, door.body, append(idem, "X-Sluice-Receipt", asks)...))
			if r.header.Get("Idempotent-Replayed") != "true" || r.body != first.body || r.header.Get("X-Sluice-Receipt") != whole {
				t.Errorf("%s: the repeat has %v and ends with %q, want those of the first", door.name, r.header, r.body[max(0, len(r.body)-200):])
			}
		}
	}
	n.checkMonth(key, keys, all) // a repeat has none of its own
}

// Two nodes on one database, which started with no key, make receipts of one account at the same time: each has its chain without
// a fork or a gap, and both nodes tell the same root of all.
func TestReceiptsOverNodes(t *testing.T) {
	t.Parallel()
	one, two, _ := onOneDatabase(t, "sandbox: true\n", nil)
	key, keys := one.OwnerKey(), one.receiptKeys()
	const callers, each = 4, 5 // on each node
	got := make(chan string, 2*callers*each)
	var calls sync.WaitGroup
	for i := range 2 * callers {
		n := []*node{one, two}[i%2]
		calls.Go(func() {
			for range each {
				r, err := n.try(n.asking(key, receiptDoors[i%2].path, receiptDoors[i%2].body))
				if err != nil || r.status != 200 {
					t.Errorf("a call = %d %s, %v", r.status, r.body, err)
				}
				got <- r.header.Get("X-Sluice-Receipt") + " " + r.body
			}
		})
	}
	calls.Wait()
	close(got)
	var all []*receipt.Receipt
	for text := range got {
		all = append(all, checked(t, keys, text))
	}
	ends, err := receipt.CheckChains(all, true)
	if err != nil || len(ends) != 2 || ends[0].N != callers*each || ends[1].N != callers*each {
		t.Errorf("the chains are %+v, %v, want two of %d", ends, err, callers*each)
	}
	for _, n := range []*node{one, two} { // each stores what is in its own journal before it tells
		n.get("/v1/receipts/root", key)
	}
	one.checkMonth(key, two.receiptKeys(), all)
	two.checkMonth(key, keys, all)
}

// A reply that breaks off has a receipt that says how it ended, of exactly what was sent.
func TestReceiptsOfCutReplies(t *testing.T) {
	t.Parallel()
	const prompt, chat = "hold:4", `{"model":"lab/m","stream":%t,"messages":[{"role":"user","content":"%s"}]}`
	u := newNarrator(t)
	breaks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(breaks.Close)
	n := newSite(t, fmt.Sprintf("providers: [{name: lab, kind: openai, base_url: %q}, {name: bad, kind: openai, base_url: %q}]\nmodels:\n"+
		"  - {id: lab/m, provider: lab, plan: free, context_length: 1000, max_output: 100}\n  - {id: bad/m, provider: bad, plan: free, context_length: 1000, max_output: 100}\n", u.url, breaks.URL+"/v1")).start(t)
	key, keys := n.OwnerKey(), n.receiptKeys()
	var all []*receipt.Receipt
	says := func(what, text, end, body string) {
		t.Helper()
		c := checked(t, keys, text)
		if c.End != end || (c.Reply == "") != (body == "") {
			t.Errorf("%s: the receipt says %+v, want the end %s", what, c.Claims, end)
		}
		if body != "" {
			if err := c.CheckReply([]byte(body)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		all = append(all, c)
	}

	// The upstream breaks off. The error of a whole reply is not what the model said, so nothing of that was sent.
	for _, stream := range []bool{true, false} {
		r := n.attested(key, chatPath, strings.Replace(fmt.Sprintf(chat, stream, "x"), "lab/m", "bad/m", 1))
		if stream {
			says("a cut stream", r.body, "cut", r.body)
		} else {
			says("a cut reply", r.header.Get("X-Sluice-Receipt"), "cut", "")
		}
	}

	// The caller hangs up in a stream, having read all that was sent until then.
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	resp, err := n.client.Do(n.asking(key, chatPath, fmt.Sprintf(chat, true, prompt)).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read := ""
	for in := bufio.NewReader(resp.Body); !strings.Contains(read, `"word 3 "`) || !strings.HasSuffix(read, "\n\n"); {
		line, err := in.ReadString('\n')
		if read += line; err != nil {
			t.Fatalf("after %q: %v", read, err)
		}
	}
	hangUp()
	id, stored := resp.Header.Get("X-Request-Id"), reply{}
	eventually(t, "the receipt of a call whose caller hung up", func() bool {
		stored = n.get("/v1/receipts/"+id, key)
		return stored.status == 200
	})
	says("a caller who hangs up", stored.body, "hang_up", read)
	n.checkMonth(key, keys, all)
}

// A key whose private half is damaged is replaced at the start, and what it has signed stays valid.
func TestDamagedReceiptKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sandbox: true\n")
	n := s.start(t)
	key := n.OwnerKey()
	all := []*receipt.Receipt{checked(t, n.receiptKeys(), n.attested(key, receiptDoors[0].path, receiptDoors[0].body).header.Get("X-Sluice-Receipt"))}
	n.stop()
	db, err := sql.Open("sqlite", filepath.Join(s.data(), sqlstore.File))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE receipt_keys SET private = 'sealed:AAAA'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	n = s.start(t)
	keys := n.receiptKeys()
	all = append(all, checked(t, keys, n.attested(key, receiptDoors[0].path, receiptDoors[0].body).header.Get("X-Sluice-Receipt")))
	if len(keys) != 2 || all[0].KeyID == all[1].KeyID {
		t.Errorf("%d keys are published, and %s signed and then %s; want another one of 2", len(keys), all[0].KeyID, all[1].KeyID)
	}
	n.checkMonth(key, keys, all)
	list := must[admin.ReceiptKeys](n, "receipt.keys", admin.Empty{}).Keys
	if len(list) != 2 || list[0].Status != "damaged" || list[1].Status != "signs" {
		t.Errorf("the keys are %+v, want a damaged one and one that signs", list)
	}
}
