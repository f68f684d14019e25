package routing

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// bound is an adapter whose models are bound to keys.
type bound struct{ nobody }

func (*bound) BindsToKey(upstream string) bool { return upstream == "bound" }

// A conversation with a model that is bound to its key stays with one target on every node. Conversations are spread by
// weight, and only those of a target that fails go elsewhere.
func TestStay(t *testing.T) {
	t.Parallel()
	node := func(upstream string) (*catalog.Model, *Routes) {
		c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, Provider: "one", Targets: []catalog.Target{{Provider: "one", Upstream: upstream, Weight: 3}, {Provider: "two", Upstream: upstream, Weight: 1}, {Provider: "spare", Upstream: upstream}}}})
		if err != nil {
			t.Fatal(err)
		}
		return lookup(t, c, "m"), New(c, []Provider{
			{Name: "one", Keys: []Key{{Adapter: &bound{}, LastFour: "1111"}, {Adapter: &bound{}, LastFour: "2222"}}},
			{Name: "two", Keys: []Key{{Adapter: &bound{}}}},
			{Name: "spare", Keys: []Key{{Adapter: &bound{}}}},
		}, &Options{Log: quiet})
	}
	m, here := node("bound")
	other, there := node("bound")
	count := map[string]int{}
	const conversations = 1000
	for i := range conversations {
		ask := func(turn int, model *catalog.Model, r *Routes) (first, second string) {
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"Conversation %d"}`, i)
			for range turn {
				body += `,{"role":"assistant","content":"Yes"},{"role":"user","content":"And?"}`
			}
			req, err := chat.Parse([]byte(body + "]}"))
			if err != nil {
				t.Fatal(err)
			}
			p := r.Plan(model)
			if !p.Stays() {
				t.Fatal("Stays = false")
			}
			p.Stay("acct_1", req)
			var names [2]string
			for n := range names {
				at, ok := p.Next(time.Time{}, nil)
				if !ok {
					t.Fatal("no target")
				}
				names[n] = at.Provider + at.LastFour
				at.Ended(time.Time{}, nil)
			}
			return names[0], names[1]
		}
		first, second := ask(0, m, here)
		if again, next := ask(1, other, there); again != first || next != second || first == second {
			t.Fatalf("conversation %d is at %s, then %s; on another node at %s, then %s", i, first, second, again, next)
		}
		count[first]++
	}
	for name, share := range map[string]float64{"one1111": 0.375, "one2222": 0.375, "two": 0.25, "spare": 0} {
		if got := float64(count[name]) / conversations; got < share-0.06 || got > share+0.06 {
			t.Errorf("%s has %.3f of the conversations, want about %.3f", name, got, share)
		}
	}
	m, r := node("free")
	if p := r.Plan(m); p.Stays() {
		t.Error("Stays of a model that is not bound = true")
	}
}
