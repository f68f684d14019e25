package relay

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/upstream/provider"
)

// author writes chunks that are mostly right, each in its own way: bytes that are changed at random
// rarely stay JSON, these nearly always do.
type author struct{ *rand.Rand }

func (a author) oneOf(choices ...string) string { return choices[a.IntN(len(choices))] }

// rarely is true once in n times.
func (a author) rarely(n int) bool { return a.IntN(n) == 0 }

func (a author) space() string {
	if !a.rarely(10) {
		return ""
	}
	return a.oneOf(" ", " ", "  ", "\t", "\t", "\n")
}

func (a author) object(members ...string) string {
	a.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if a.rarely(80) && len(members) > 0 {
		members = append(members, members[0])
	}
	var b strings.Builder
	b.WriteString("{" + a.space())
	for i, m := range members {
		if i > 0 {
			b.WriteString("," + a.space())
		}
		b.WriteString(m + a.space())
	}
	return b.String() + "}"
}

func (a author) member(key, value string) string {
	if a.rarely(150) {
		key = fmt.Sprintf(`\u%04x%s`, key[0], key[1:])
	}
	return `"` + key + `"` + a.space() + ":" + a.space() + value
}

func (a author) text() string {
	s := a.oneOf("", "a", "a", "word ", `\"`, `\\`, `\u00e9`, `\ud83d\ude00`, `\n`, "é", "日本", `\u0000`, "\x7f", `/\/`)
	if a.rarely(40) {
		s = a.oneOf(`\ud83d`, "\xff", `"},"finish_reason":null}]}`, `\x`, "\x01")
	}
	return `"` + s + a.oneOf("", "b", " x") + `"`
}

func (a author) value() string {
	if a.rarely(20) {
		return a.oneOf("- 1", "01", "1.", "1e", "nul", "[1,]", "{,}", "'x'")
	}
	return a.oneOf("null", "true", "0", "-1.5e3", `"x"`, `[]`, `{}`, `[ ]`, `[1,{"a":[null]}]`, `{"error":1}`, a.text())
}

func (a author) call() string {
	members := []string{a.member("function", a.object(a.some(
		a.member("name", a.oneOf(`"f"`, `"g"`, `""`, "null")),
		a.member("arguments", a.oneOf(`""`, `"{"`, `"}"`, `"{}"`, "null", `{"a":1}`)))...))}
	return a.object(append(members, a.some(
		a.member("index", a.oneOf("0", "0", "1", "2", "7", "-1", "null")),
		a.member("id", a.oneOf(`"c1"`, `"c2"`, `""`, "null")),
		a.member("type", `"function"`))...)...)
}

// some is part of the members.
func (a author) some(members ...string) (kept []string) {
	for _, m := range members {
		if !a.rarely(3) {
			kept = append(kept, m)
		}
	}
	return kept
}

func (a author) delta() string {
	var members []string
	add := func(often int, key string, value func() string) {
		if a.IntN(100) < often {
			members = append(members, a.member(key, value()))
		}
	}
	add(15, "role", func() string { return a.oneOf(`"assistant"`, `"assistant"`, `"user"`, "null", `""`) })
	add(70, "content", func() string {
		return a.oneOf(a.text(), a.text(), a.text(), a.text(), "null", `[{"type":"text","text":"p"}]`)
	})
	add(10, "reasoning_content", func() string { return a.oneOf(a.text(), "null") })
	add(5, "reasoning", func() string { return a.oneOf(a.text(), "null") })
	add(5, "refusal", func() string { return a.oneOf(a.text(), "null") })
	add(15, "tool_calls", func() string { return a.oneOf("null", "[]", "["+a.call()+"]", "["+a.call()+","+a.call()+"]") })
	add(5, "x", a.value)
	return a.object(members...)
}

func (a author) choice(part string) string {
	members := []string{a.member(part, a.delta())}
	if !a.rarely(20) {
		members = append(members, a.member("index", a.index()))
	}
	if !a.rarely(10) {
		members = append(members, a.member("finish_reason", a.finish()))
	}
	if a.rarely(6) {
		members = append(members, a.member(a.oneOf("logprobs", "x", "y", "error", "Delta", "message"), a.value()))
	}
	return a.object(members...)
}

func (a author) index() string {
	if a.rarely(20) {
		return a.oneOf("2", "-1", "00", "1.0", "1e0", `"0"`)
	}
	return a.oneOf("0", "0", "0", "1")
}

func (a author) finish() string {
	switch {
	case a.rarely(40):
		return a.oneOf(`"eos"`, `"abort"`, `""`, `"\u0073top"`, "7")
	case a.rarely(6):
		return a.oneOf(`"stop"`, `"length"`, `"tool_calls"`, `"content_filter"`)
	}
	return "null"
}

func (a author) usage() string {
	return a.oneOf("null", "null", "null", "{}", `{"prompt_tokens":3,"completion_tokens":4}`, `{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":9}}`, `{"prompt_tokens":-3,"completion_tokens":99999999999999999999}`)
}

// reply writes a chunk, or a whole reply.
func (a author) reply(part string) string {
	choices := make([]string, a.oneOf("1", "1", "1", "1", "1", "0", "2")[0]-'0')
	for i := range choices {
		choices[i] = a.choice(part)
	}
	members := []string{a.member("choices", "["+strings.Join(choices, ",")+a.space()+"]")}
	if a.rarely(2) {
		members = append(members, a.member("usage", a.usage()))
	}
	if a.rarely(2) {
		members = append(members, a.member("id", `"x"`), a.member("model", `"m"`))
	}
	if a.rarely(4) {
		members = append(members, a.member("system_fingerprint", a.oneOf("null", `"fp_\u00e9"`, a.value())))
	}
	if a.rarely(4) {
		members = append(members, a.member("service_tier", a.oneOf("null", `"default"`, `"priority"`, `"on_demand"`, `"fl\u0065x"`, a.value())))
	}
	if a.rarely(20) {
		members = append(members, a.member(a.oneOf("error", "x", "Error"), a.oneOf("null", a.value())))
	}
	return a.object(members...)
}

// completed adds what the relay adds to a choice of a whole reply.
func completed(choice object) {
	message := choice["message"].(object)
	if _, ok := message["refusal"]; !ok {
		message["refusal"] = nil
	}
	if _, ok := choice["logprobs"]; !ok {
		choice["logprobs"] = nil
	}
}

// runs is how many replies the generated tests make up, and where they begin.
func runs(t *testing.T) (n int, seed uint64) {
	t.Helper()
	if os.Getenv("SLUICE_SOAK") == "" {
		return 3000, 1
	}
	seed, _ = strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64) // where there is none, 0 will do
	return 100_000, seed
}

// TestGeneratedStreams holds made-up streams to the rules, and every spliced chunk to the oracle.
func TestGeneratedStreams(t *testing.T) {
	t.Parallel()
	n, seed := runs(t)
	spliced, complete := 0, 0
	for i := range n {
		a := author{rand.New(rand.NewPCG(seed, uint64(i)))}
		raws := make([]string, 1+a.IntN(6))
		var wire strings.Builder
		for k := range raws {
			raws[k] = a.reply("delta")
			if k > 0 && a.rarely(3) {
				raws[k] = strings.Replace(raws[k-1], `"a`, `"c`, 1) // chunks of one stream are alike
			}
			wire.WriteString("data: " + strings.ReplaceAll(raws[k], "\n", "\ndata: ") + "\n\n")
		}
		if a.IntN(2) > 0 {
			wire.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
		}
		opts := Options{N: 1 + a.IntN(2), IncludeUsage: a.rarely(2)}
		c, err := relayed(t, "text/event-stream", strings.NewReader(wire.String()), true, opts)
		for _, problem := range broken(c, err, opts) {
			t.Errorf("seed %d, %d: %s: %s\nthe caller got %s", seed, i, wire.String(), problem, c.body.String())
		}
		if err == nil {
			complete++
		}
		spliced += checkSplices(t, raws)
		if t.Failed() {
			return
		}
	}
	t.Logf("soak: seed %d: %d streams, %d of them complete, %d chunks spliced", seed, n, complete, spliced)
	if spliced < n || complete < n/5 {
		t.Errorf("%d streams, %d of them complete, %d chunks spliced: the author has lost the thread", n, complete, spliced)
	}
}

// checkSplices sends chunks down one stream and holds those that are spliced to the oracle.
func checkSplices(t *testing.T, raws []string) (spliced int) {
	t.Helper()
	s := &streamer{reply: newReply(testHead, &Options{N: 2}), w: &discard{http.Header{}}}
	s.prefix = appendHead([]byte("data: "), testHead, "chat.completion.chunk")
	var o oracle
	for _, raw := range raws {
		s.out = s.out[:0]
		if !s.splice([]byte(raw)) {
			o.tier = s.head.Tier // which both ways take
			continue             // it is the decoder's; here it might as well not have come
		}
		spliced++
		v, err := decodeObject([]byte(raw))
		if err != nil {
			t.Fatalf("splice(%q) accepts what is no JSON object: %v", raw, err)
		}
		if diff := cmp.Diff(o.want(v), chunksOf(t, s.out)); diff != "" {
			t.Fatalf("splice(%q): -want +got\n%s", raw, diff)
		}
	}
	return spliced
}

// TestGeneratedReplies does the same for replies in one piece.
func TestGeneratedReplies(t *testing.T) {
	t.Parallel()
	n, seed := runs(t)
	spliced, complete := 0, 0
	for i := range n {
		a := author{rand.New(rand.NewPCG(seed, uint64(i)))}
		raw := a.reply("message")
		c, err := send(t.Context(), &played{events: []provider.Event{{Kind: provider.Whole, Raw: []byte(raw)}}}, false, Options{N: 1})
		if err != nil {
			if !isPlain(err) {
				t.Errorf("Collect(%q) = %v, want a plain fault", raw, err)
			}
			continue
		}
		complete++
		v, err := decodeObject([]byte(c.body.String()))
		if err != nil {
			t.Fatalf("Collect(%q) sends %q: %v", raw, c.body.String(), err)
		}
		if problem := brokenWhole(v); problem != "" {
			t.Errorf("Collect(%q) sends %s: %s", raw, c.body.String(), problem)
		}
		col := &collector{reply: newReply(testHead, &Options{N: 1})}
		if col.splice([]byte(raw)) {
			spliced++
			upstreams, err := decodeObject([]byte(raw))
			if err != nil {
				t.Fatalf("splice(%q) accepts what is no JSON object: %v", raw, err)
			}
			completed(upstreams["choices"].([]any)[0].(object))
			if diff := cmp.Diff(upstreams["choices"], v["choices"]); diff != "" {
				t.Errorf("splice(%q): -want +got\n%s", raw, diff)
			}
		}
	}
	if complete < n/50 || spliced == 0 {
		t.Errorf("%d replies, %d of them complete, %d spliced: the author has lost the thread", n, complete, spliced)
	}
}
