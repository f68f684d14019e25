package inference_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpapi"
	"sluice/internal/kit/pulse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/routing"
)

// TestPrices plays replies of vendors to the whole line, from the door to the settlement, with the vendor's own adapter and
// the list of prices that comes with the program. What is counted, and the cost, are compared with figures worked out by hand.
//
// testdata/prices has an archive for each vendor, and a file in it for each reply: NAME.json is a whole one, NAME.sse a stream,
// and NAME.frames a stream of AWS, whose lines are the type of an event and its JSON. The lines before the reply, which begin
// with a hash, are the case:
//
//	model   the vendor's name of the model
//	kind    of the vendor, if the archive has several
//	door    the one that the call comes in by: chat (the default), responses or messages
//	counts  the buckets
//	terms   the rest of what the cost follows from; see usage.Settlement.Details
//	cost    the sum, in terms of TOKENS × $PRICE/M or CALLS × $PRICE, with factors; = NANO-DOLLARS. Or: unpriced
func TestPrices(t *testing.T) {
	t.Parallel()
	for name, adapter := range vendors {
		archive, err := txtar.ParseFile(filepath.Join("testdata", "prices", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(archive.Files); n < 12 {
			t.Errorf("%s: %d replies, want 12 at least", name, n)
		}
		for _, f := range archive.Files {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				t.Parallel()
				newRecorded(t, name, f.Name, f.Data).check(t, adapter)
			})
		}
	}
}

// vendors make the adapters of the archives.
var vendors = map[string]func(t *testing.T, kind, base string) (provider.Adapter, error){
	"openai": func(_ *testing.T, _, base string) (provider.Adapter, error) {
		preset, _ := openai.PresetOf("openai", "")
		return openai.New(base, &openai.Options{Preset: preset, API: openai.APIChat})
	},
	"responses": func(_ *testing.T, _, base string) (provider.Adapter, error) {
		preset, _ := openai.PresetOf("openai", "")
		return openai.New(base, &openai.Options{Preset: preset, API: openai.APIResponses})
	},
	"anthropic": func(_ *testing.T, _, base string) (provider.Adapter, error) {
		return anthropic.New(base, &anthropic.Options{FirstParty: true})
	},
	"gemini": func(_ *testing.T, _, base string) (provider.Adapter, error) { return gemini.New(base, nil) },
	"bedrock": func(_ *testing.T, _, base string) (provider.Adapter, error) {
		return bedrock.New("us-east-1", bedrock.Keys{AccessKeyID: "id", SecretAccessKey: "secret"}, &bedrock.Options{BaseURL: base})
	},
	"compatible": func(t *testing.T, kind, base string) (provider.Adapter, error) {
		preset, ok := openai.PresetOf(kind, "")
		if !ok {
			t.Fatalf("there is no vendor %q", kind)
		}
		return openai.New(base, &openai.Options{Preset: preset, API: openai.APIChat})
	},
}

// recorded is a reply of a vendor.
type recorded struct {
	kind, model, door   string
	counts, terms, cost string
	stream              bool
	media               string
	body                []byte
}

func newRecorded(t *testing.T, vendor, name string, data []byte) *recorded {
	t.Helper()
	r := &recorded{kind: vendor, door: usage.DoorChat, stream: true, media: "text/event-stream"}
	fields := map[string]*string{"model": &r.model, "kind": &r.kind, "door": &r.door, "counts": &r.counts, "terms": &r.terms, "cost": &r.cost}
	for len(data) > 0 && data[0] == '#' {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		field, value, _ := strings.Cut(strings.TrimPrefix(string(line), "# "), ": ")
		to := fields[field]
		if to == nil {
			t.Fatalf("%s: there is no field %q", name, field)
		}
		*to, data = value, rest
	}
	if r.kind == "responses" {
		r.kind = "openai"
	}
	r.body = data
	switch filepath.Ext(name) {
	case ".json":
		r.stream, r.media = false, "application/json"
	case ".frames":
		r.media, r.body = "application/vnd.amazon.eventstream", frames(t, data)
	}
	return r
}

// frames encodes lines of an event's type and its JSON as AWS does.
func frames(t *testing.T, lines []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for line := range strings.Lines(string(lines)) {
		kind, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		m := eventstream.Message{Payload: []byte(payload)}
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
		m.Headers.Set(":event-type", eventstream.StringValue(kind))
		if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// check plays the reply to a call, and compares its settlement.
func (r *recorded) check(t *testing.T, adapter func(t *testing.T, kind, base string) (provider.Adapter, error)) {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", r.media)
		_, _ = w.Write(r.body)
	}))
	defer up.Close()
	a, err := adapter(t, r.kind, up.URL)
	if err != nil {
		t.Fatal(err)
	}
	got := r.call(t, a)
	for i := range got.Terms.Turns {
		got.Terms.Turns[i].Version = "" // nobody can work it out by hand
	}
	if got.Details() != r.terms {
		t.Errorf("the terms are %q, want %q", got.Details(), r.terms)
	}
	counts := got.Counts()
	var said []string
	for b, n := range counts.Tokens {
		if n != 0 {
			said = append(said, fmt.Sprintf("%s=%d", price.Bucket(b), n))
		}
	}
	if text := strings.Join(said, " "); text != r.counts {
		t.Errorf("the counts are %q, want %q", text, r.counts)
	}
	cost := "unpriced"
	if got.Cost != nil {
		cost = fmt.Sprint(int64(*got.Cost))
	}
	if want := worked(t, r.cost); cost != want {
		t.Errorf("the cost is %s, want %s: %s", cost, want, r.cost)
	}
}

// worked returns the result of a calculation by hand, once the calculation has been checked.
func worked(t *testing.T, text string) string {
	t.Helper()
	formula, result, ok := strings.Cut(text, " = ")
	if !ok {
		return text
	}
	sum := new(big.Rat)
	for term := range strings.SplitSeq(formula, " + ") {
		product := big.NewRat(1, 1)
		for factor := range strings.SplitSeq(strings.ReplaceAll(term, ",", ""), " × ") {
			number, perMillion := strings.CutSuffix(factor, "/M")
			f, ok := new(big.Rat).SetString(strings.TrimPrefix(number, "$"))
			if !ok {
				t.Fatalf("%q is no factor", factor)
			}
			if product.Mul(product, f); perMillion {
				product.Quo(product, big.NewRat(1_000_000, 1))
			}
		}
		sum.Add(sum, product)
	}
	sum.Mul(sum, big.NewRat(1_000_000_000, 1)) // nano-dollars
	result = strings.ReplaceAll(result, ",", "")
	if nanos := new(big.Int).Quo(new(big.Int).Add(new(big.Int).Mul(sum.Num(), big.NewInt(2)), sum.Denom()), new(big.Int).Mul(sum.Denom(), big.NewInt(2))); nanos.String() != result {
		t.Errorf("%s is %s, not %s", formula, nanos, result)
	}
	return result
}

// priced returns the prices of a model on the day on which the replies were written, for calls of any day and hour.
func priced(t *testing.T, kind, model string) *price.Series {
	t.Helper()
	on := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	listed, _ := price.Listed()
	var today []*price.Entry
	for _, e := range listed {
		if e.From.After(on) || !e.Until.IsZero() && !e.Until.After(on) {
			continue
		}
		copied := *e
		copied.From, copied.Until, copied.Hours = time.Time{}, time.Time{}, nil
		sealed, err := price.Sealed(copied)
		if err != nil {
			t.Fatal(err)
		}
		today = append(today, sealed)
	}
	return price.NewBook(today).Find("lab/m", kind, model)
}

// bodies are the requests of the doors.
var bodies = map[string]struct{ path, body string }{
	usage.DoorChat:      {"/v1/chat/completions", `{"model":"lab/m","stream":%t,"max_completion_tokens":1000,"messages":[{"role":"user","content":"Hello"}]}`},
	usage.DoorResponses: {"/v1/responses", `{"model":"lab/m","stream":%t,"input":"Hello","store":false}`},
	usage.DoorMessages:  {"/v1/messages", `{"model":"lab/m","stream":%t,"max_tokens":1000,"messages":[{"role":"user","content":"Hello"}]}`},
}

// call makes the call by its door, and returns its settlement.
func (r *recorded) call(t *testing.T, a provider.Adapter) usage.Settlement {
	t.Helper()
	offered, err := catalog.New([]catalog.Model{{
		ID: "lab/m", Plan: account.Free, Provider: "up", Upstream: r.model, RequestMilli: 1000, UnitMilli: 1000, ContextLength: 2_000_000, MaxOutput: 128_000,
		Thinks: true, Images: true, ToolCalling: true, Price: priced(t, r.kind, r.model),
	}})
	if err != nil {
		t.Fatal(err)
	}
	kept := &books{came: make(chan struct{}, 10)}
	owner, key, err := account.New(nowhere{}, nil).Create(t.Context(), "t", "a@example.com", account.Premium, false)
	if err != nil {
		t.Fatal(err)
	}
	index := auth.NewIndex()
	index.Put(owner)
	p := pulse.New()
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { p.Run(ctx) })
	defer beating.Wait()
	defer cancel()
	ledger, log := admission.NewMemory(nil), slog.New(slog.DiscardHandler)
	routes := routing.New(offered, []routing.Provider{{Name: "up", Keys: []routing.Key{{Adapter: a}}}}, &routing.Options{Log: log})
	server := httptest.NewServer(httpapi.New(auth.New(index, "service", nil), inference.New(admission.New(ledger, kept, nil), p, &inference.Options{Patience: 1}),
		httpapi.Settings{Catalog: offered, Routes: routes, Plans: account.BuiltinPlans()}, &httpapi.Options{Log: log, Ledger: ledger}))
	defer server.Close()
	door := bodies[r.door]
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+door.path, strings.NewReader(fmt.Sprintf(door.body, r.stream)))
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	reply, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	server.Close() // waits for the handler, which has settled the call
	if c, ok := a.(interface{ Close() }); ok {
		c.Close()
	}
	if len(kept.kept) != 1 {
		t.Fatalf("%d settlements, want one: %d %s", len(kept.kept), resp.StatusCode, cmp.Or(string(reply), "nothing"))
	}
	return kept.kept[0]
}
