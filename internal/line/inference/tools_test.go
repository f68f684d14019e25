package inference_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/netguard"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/mcpclient"
	"sluice/internal/upstream/provider"
)

// withTools gives the line MCP tools and returns a request's entry for a server with the tools "work",
// which works, and "break", which breaks.
func (f *failover) withTools(t *testing.T) (entry string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	for _, name := range []string{"work", "break"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			if name == "break" {
				return nil, nil, errors.New("broken")
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "worked"}}}, nil, nil
		})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		for session := range s.Sessions() { // of a client that was cut off before it could end it
			_ = session.Close()
		}
	})
	guard := netguard.New(&netguard.Options{Allow: []string{"127.0.0.1"}})
	client := mcpclient.New(guard, nil)
	t.Cleanup(func() { client.Close(); guard.Close() })
	f.line = inference.New(admission.New(f.ledger, f.books, nil), nil, &inference.Options{Tools: toolloop.New(client, nil)})
	return `,"tools":[{"type":"mcp","server_label":"s","server_url":"` + server.URL + `"}]`
}

// calling is a turn that calls tools.
func calling(names ...string) *script {
	s := &script{}
	for i, name := range names {
		s.events = append(s.events, provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, ID: name, Name: "s__" + name}})
	}
	s.events = append(s.events, provider.Event{Kind: provider.Finish, Finish: chat.FinishToolCalls}, figures)
	return s
}

// Several turns are one call: one allowance, units for each turn, usage added up, tools counted. Turns
// after the first are asked of the model that answered it.
func TestConversation(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		f := newFailover(t, account.Scale, map[string]*inTurn{"z": turns(calling("work", "break"), answer("Done."))}, nil)
		w, err := f.ask(t.Context(), t, "two", stream, f.withTools(t))
		if err != nil || !strings.Contains(w.Body.String(), `"content":"Done."`) {
			t.Fatalf("Complete = %v, %s, want an answer", err, w.Body)
		}
		got := f.settled(t)
		if got.ModelUsed != "stand" || got.RequestMilli != 1500 || got.UnitMilli != 2*9000 || got.MCPCalls != 2 || got.MCPFailed != 1 || got.End != usage.EndComplete || got.Status != 200 {
			t.Errorf("settled = %+v, want one call of two turns with two tools", got)
		}
		if one := figures.Usage; got.Tokens != (chat.Usage{Prompt: 2 * one.Prompt, Cached: 2 * one.Cached, Completion: 2 * one.Completion, Reasoning: 2 * one.Reasoning}) || got.Counted {
			t.Errorf("tokens = %+v, want twice %+v", got.Tokens, one)
		}
		header := w.Result().Header
		if stream {
			header = w.Result().Trailer
		}
		if got := header.Get("X-Sluice-Mcp-Calls"); got != "2" {
			t.Errorf("stream %t: X-Sluice-Mcp-Calls = %q in %v, want 2", stream, got, header)
		}
		if x := f.adapters["x"].calls(); x == 0 || f.adapters["z"].calls() != 2 {
			t.Errorf("x was asked %d times and z %d, want the second turn at z alone", x, f.adapters["z"].calls())
		}
		ids := map[string]bool{}
		for _, s := range f.adapters["z"].scripts {
			ids[s.asked[0].ID] = true
		}
		if len(ids) != 2 {
			t.Errorf("the turns' ids are %v, want two", ids)
		}
	}
}

// Each turn is priced by the length of its own prompt, with the prices of the place that answers it, and what a cut turn is
// estimated to have produced is within what it could.
func TestConversationCosts(t *testing.T) {
	t.Parallel()
	prices := func(model string, input price.Rate) *price.Entry {
		e, err := price.Sealed(price.Entry{
			Vendor: "v", Model: model, Rates: price.Of(input, input), Bands: []price.Band{{Above: 1000, Rates: price.Of(2*input, 2*input)}},
			Fees: map[string]price.Nano{"web_search": 5_000_000}, Tiers: map[string]price.Factor{"flex": 500_000},
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	book := price.NewBook([]*price.Entry{prices("z", 1_000_000_000), prices("other", 3_000_000_000)})
	first, second := calling("work"), calling("break")
	first.events[len(first.events)-1].Usage = chat.Usage{Prompt: 600, Completion: 10}
	second.events[len(second.events)-1].Usage = chat.Usage{Prompt: 1400, Cached: 100, Completion: 20}
	second.bill = provider.Bill{Model: "other", Tier: "flex", Uses: []price.Use{{Name: "web_search", Milli: 1000}}, Calls: 1}
	last := &script{events: []provider.Event{text(strings.Repeat(" Hello", 500))}, early: &chat.Usage{Prompt: 900, Completion: 1}}
	f := newFailover(t, account.Scale, map[string]*inTurn{"x": turns(first, second, last)}, nil)
	one, _ := f.models.Catalog.Resolve("one", nil)
	one.Price = book.Find("", "v", "z")
	_, _ = f.ask(t.Context(), t, "one", true, f.withTools(t))
	got := f.settled(t)
	// 610 × $1; (1,520 × $6) × 0.5 and a search; (900 + 100) × $1, since the model writes 100 tokens at most.
	const want = 610_000 + 4_560_000 + 5_000_000 + 1_000_000
	if got.Cost == nil || *got.Cost != want || got.End != usage.EndCut {
		t.Errorf("settled = %+v at %v, want %d", got, got.Cost, int64(want))
	}
	if all := got.Turns(); len(all) != 3 || all[1].Model != "other" || all[1].Tier != "flex" || all[0].Version == all[1].Version || all[0].Version != all[2].Version {
		t.Errorf("turns = %+v, want three, the second at other prices", all)
	}
	if sum := (chat.Usage{Prompt: 2900, Cached: 100, Completion: 130}); got.Tokens != sum || !got.Terms.Estimated {
		t.Errorf("tokens = %+v, want %+v, estimated", got.Tokens, sum)
	}
}

// A server that cannot be used is the caller's fault. It was asked, so the request counts; no model was.
func TestConversationRefused(t *testing.T) {
	t.Parallel()
	f := newFailover(t, account.Scale, map[string]*inTurn{}, nil)
	f.withTools(t)
	_, err := f.ask(t.Context(), t, "one", true, `,"tools":[{"type":"mcp","server_label":"gone","server_url":"http://127.0.0.1:1/"}]`)
	if g := fault.From(err); g.Kind != fault.Invalid || g.Param != "tools[0].server_url" || !strings.Contains(g.Message, `"gone"`) {
		t.Errorf("Complete = %v, want a 400 that names the server", err)
	}
	if got := f.settled(t); got.End != usage.EndFailed || got.Status != 400 || got.RequestMilli != 1500 || got.UnitMilli != 0 || got.Tokens.Total() != 0 {
		t.Errorf("settled = %+v, want a refusal that costs its requests", got)
	}

	f = newFailover(t, account.Scale, map[string]*inTurn{}, nil)
	if _, err := f.ask(t.Context(), t, "one", false, `,"tools":[{"type":"mcp","server_url":"http://127.0.0.1:1/"}]`); !fault.Is(err, fault.Invalid) {
		t.Errorf("Complete of a line without tools = %v, want a 400", err)
	}
}

// A model that fails in a later turn, after the caller has read something, is charged for what it did.
func TestConversationCut(t *testing.T) {
	t.Parallel()
	first := calling("work")
	first.events = append([]provider.Event{text("Let me see.")}, first.events...)
	f := newFailover(t, account.Scale, map[string]*inTurn{"x": turns(first, &script{refuse: fault.New(fault.Invalid, "The prompt is too long.")})}, nil)
	w, err := f.ask(t.Context(), t, "one", true, f.withTools(t))
	if err == nil || !strings.Contains(w.Body.String(), "too long") {
		t.Fatalf("Complete = %v, %s, want it told in the stream", err, w.Body)
	}
	if got := f.settled(t); got.End != usage.EndCut || got.UnitMilli != 2500 || got.MCPCalls != 1 || got.Tokens != figures.Usage {
		t.Errorf("settled = %+v, want one turn and one tool", got)
	}
}
