package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/catalog"
)

// A comparison reads the calls of the vendor's providers, and its report is kept.
func TestReconcile(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	// The calls were settled with prices that are in force no more.
	prices, today := price.Flat(2_000_000_000, 10_000_000_000), price.Flat(7_000_000_000, 30_000_000_000)
	models, err := catalog.New([]catalog.Model{{ID: "lab/large", Plan: account.Free, ContextLength: 1000, MaxOutput: 100, RequestMilli: 1000, UnitMilli: 1000, Provider: "open", Upstream: "gpt-6-sol", Price: today}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.RecordPrices(t.Context(), append(prices.Entries(), today.Entries()...), started); err != nil {
		t.Fatal(err)
	}
	b.Catalog = func() *catalog.Catalog { return models }
	b.Calls, b.Reconciliations, b.Versions = store, store, stored{store}
	b.Vendors = func() map[string]string { return map[string]string{"open": "openai", "other": "anthropic"} }
	var batch []usage.Settlement
	for i, provider := range []string{"open", "open", "other"} {
		s := usage.Settlement{
			ID: strings.Repeat("0", 31) + string(rune('a'+i)), At: started.Add(time.Duration(i) * time.Hour), AccountID: "acct", ModelAsked: "lab/large", ModelUsed: "lab/large", Provider: provider,
			Tokens: chat.Usage{Prompt: 1000, Cached: 100, Completion: 50, Reasoning: 10}, Status: 200, End: usage.EndComplete,
			Trace: &usage.Trace{Attempts: []usage.Attempt{{Model: "lab/large", Provider: provider, Upstream: "gpt-6-sol-2026-01-01", Outcome: usage.Answered}}},
		}
		s.Price(prices.At(s.At.Unix()), 0)
		batch = append(batch, s)
	}
	if err := store.RecordSettlements(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	export := func(input string) []reconcile.Export {
		r := reconcile.NewReader(reconcile.OpenAI, nil)
		text := `{"data":[{"start_time":1772323200,"results":[
			{"object":"organization.usage.completions.result","input_tokens":2200,"input_cached_tokens":200,"output_tokens":120,"model":"gpt-6-sol","service_tier":"default","batch":false,"api_key_id":"key_1"}]}]}
			{"data":[{"start_time":1772323200,"results":[
			{"object":"organization.costs.result","amount":{"value":` + input + `,"currency":"usd"},"line_item":"gpt-6-sol, input"},
			{"object":"organization.costs.result","amount":{"value":0.0004,"currency":"usd"},"line_item":"gpt-6-sol, cached input"},
			{"object":"organization.costs.result","amount":{"value":0.0012,"currency":"usd"},"line_item":"gpt-6-sol, output"},
			{"object":"organization.costs.result","amount":{"value":0.5,"currency":"usd"},"line_item":"vector stores"}]}]}`
		if err := r.Read("usage.json", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		exports, err := r.Exports()
		if err != nil {
			t.Fatal(err)
		}
		return exports
	}
	client := admin.InProcess(b)
	client.Actor = "operator"
	good, err := admin.Ops().ReconcileRun.Call(t.Context(), client, admin.ReconcileOrder{Exports: export("0.004")})
	if err != nil || !good.InOrder() || len(good.Findings) != 0 || good.Compared != 1 || good.Matched != 1 || good.Ours != good.Theirs || good.Ours != 5_600_000 {
		t.Errorf("ReconcileRun of what agrees: %v, %+v", err, good)
	}
	bad, err := admin.Ops().ReconcileRun.Call(t.Context(), client, admin.ReconcileOrder{Exports: export("0.006")})
	if err != nil || bad.InOrder() || len(bad.Findings) != 1 || bad.Findings[0].Class != reconcile.StalePrice || bad.Findings[0].Amount != 2_000_000 || bad.Actor != "operator" {
		t.Fatalf("ReconcileRun of another price: %v, %+v", err, bad)
	}
	if len(bad.Proposals) != 1 || bad.Proposals[0].Entry.Rates[price.Input] != 3_000_000_000 || !strings.Contains(bad.Proposals[0].YAML, "input: 3\n") {
		t.Errorf("the proposals are %+v", bad.Proposals)
	}
	if len(bad.Others) != 1 || bad.Others[0].Name != "vector stores" {
		t.Errorf("not compared are %+v", bad.Others)
	}
	list, err := admin.Ops().ReconcileList.Call(t.Context(), client, admin.Cursor{})
	if err != nil || len(list.Data) != 2 {
		t.Errorf("ReconcileList: %v, %d", err, len(list.Data))
	}
	again, err := admin.Ops().ReconcileShow.Call(t.Context(), client, admin.ReportQuery{ID: bad.ID})
	if err != nil || len(again.Findings) != 1 || again.Proposals[0].Entry.Version() != bad.Proposals[0].Entry.Version() {
		t.Errorf("ReconcileShow: %v, %+v", err, again)
	}
	for _, in := range []admin.ReconcileOrder{
		{}, {Exports: []reconcile.Export{{Vendor: "nobody"}}}, {Exports: export("1"), From: "2020-01-01"}, {Exports: []reconcile.Export{{Vendor: reconcile.AWS, Lines: []reconcile.Line{{Day: "2026-03-01", Model: "x"}}}}},
	} {
		if _, err := admin.Ops().ReconcileRun.Call(t.Context(), client, in); err == nil || kindOf(err) != fault.Invalid {
			t.Errorf("ReconcileRun of %+v: %v", in, err)
		}
	}
}

// stored finds the prices that a store has.
type stored struct{ *alltest.Store }

func (s stored) Entry(ctx context.Context, version string) (*price.Entry, error) {
	seen, err := s.PriceVersion(ctx, version)
	if seen == nil {
		return nil, err
	}
	return seen.Entry, nil
}

// kindOf returns the kind of a fault.
func kindOf(err error) fault.Kind {
	f, ok := err.(*fault.Fault)
	if !ok {
		return fault.Internal
	}
	return f.Kind
}
