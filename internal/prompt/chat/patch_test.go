package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAppendUpstream(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	set := func(name, value string) []Setting { return []Setting{{name, []byte(value)}} }
	for _, tt := range []struct {
		name, body string
		patch      Patch
		want       string
	}{
		{"nothing", ` { "model" : "a" , ` + messages + ` } `, Patch{}, ` { "model" : "a" , ` + messages + ` } `},
		{"model", `{"model":"a",` + messages + `}`, Patch{Model: "b/c"}, `{"model":"b/c",` + messages + `}`},
		{"model that needs quoting", `{"model":"a",` + messages + `}`, Patch{Model: "\"\\\n\x01é\xff"}, `{"model":"\"\\\n\u0001é�",` + messages + `}`},
		{"model with an escaped key", `{` + messages + `,"\u006dodel": "a" }`, Patch{Model: "b"}, `{` + messages + `,"\u006dodel": "b" }`},
		{
			"model in a text is left alone", `{"x":{"model":"a"},"model":"a","messages":[{"role":"user","content":"\"model\":\"a\""}]}`,
			Patch{Model: "b"},
			`{"x":{"model":"a"},"model":"b","messages":[{"role":"user","content":"\"model\":\"a\""}]}`,
		},

		{"usage, not streamed", `{"model":"a",` + messages + `}`, Patch{IncludeUsage: true}, `{"model":"a",` + messages + `}`},
		{
			"usage inserted", `{ "model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{ "stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage for null", `{"stream_options": null ,"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options": {"include_usage":true} ,"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage into an empty object", `{"stream_options":{ },"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage beside others", `{"stream_options":{ "x":1 },"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage false", `{"stream_options":{"x":1,"include_usage" : false },"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage null", `{"stream_options":{"include_\u0075sage":null,"x":1},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage true already", `{"stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"usage in place of dropped options", `{"stream_options":{"x":1},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true, Drop: []string{"stream_options"}},
			`{"stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
		},

		{
			"resumable alone", `{"stream_options":{ "resumable":true },"model":"a",` + messages + `,"stream":true}`,
			Patch{},
			`{"stream_options":{},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"resumable alone, with usage", `{"stream_options":{"resumable":true},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"resumable first", `{"stream_options":{"resumable": true , "x":1,"include_usage":false},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"resumable in the middle", `{"stream_options":{"include_usage":false , "resumable":null,"x":1},"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},
		{
			"resumable last", `{"stream_options":{"x":1, "resumable":false },"model":"a",` + messages + `,"stream":true}`,
			Patch{IncludeUsage: true},
			`{"stream_options":{"include_usage":true,"x":1},"model":"a",` + messages + `,"stream":true}`,
		},

		{"drop the first", `{ "n":1 , "model":"a",` + messages + `}`, Patch{Drop: []string{"n"}}, `{ "model":"a",` + messages + `}`},
		{"drop the last", `{"model":"a",` + messages + ` , "n":1 }`, Patch{Drop: []string{"n"}}, `{"model":"a",` + messages + ` }`},
		{"drop in the middle", `{"model":"a" , "n":1, ` + messages + `}`, Patch{Drop: []string{"n"}}, `{"model":"a", ` + messages + `}`},
		{
			"drop neighbours", `{"user":"u","n":1,"model":"a","seed":1,"x":[1,{}],` + messages + `,"y":"}","z":null}`,
			Patch{Drop: []string{"x", "y", "z", "n", "seed", "user"}},
			`{"model":"a",` + messages + `}`,
		},
		{"drop all but the model", `{` + messages + `,"model":"a","n":1}`, Patch{Drop: []string{"messages", "model", "n"}}, `{"model":"a"}`},
		{"drop an escaped key", `{"model":"a",` + messages + `,"s\u0065ed":1}`, Patch{Drop: []string{"seed"}}, `{"model":"a",` + messages + `}`},
		{"drop what is not there", `{"model":"a",` + messages + `}`, Patch{Drop: []string{"seed", ""}}, `{"model":"a",` + messages + `}`},

		{"set in place", `{"model":"a","max_tokens": 5 ,` + messages + `}`, Patch{Set: set("max_tokens", "7")}, `{"model":"a","max_tokens": 7 ,` + messages + `}`},
		{"set anew", `{"model":"a",` + messages + `}`, Patch{Set: set(`a"b`, "[7]")}, `{"a\"b":[7],"model":"a",` + messages + `}`},
		{"set goes before drop", `{"model":"a","n":1,` + messages + `}`, Patch{Set: set("n", "2"), Drop: []string{"n"}}, `{"model":"a","n":2,` + messages + `}`},
		{
			"rename", `{"max_tokens":5,"model":"a",` + messages + `}`,
			Patch{Set: set("max_completion_tokens", "5"), Drop: []string{"max_tokens"}},
			`{"max_completion_tokens":5,"model":"a",` + messages + `}`,
		},
		{
			"set goes before usage", `{"stream":true,"model":"a",` + messages + `}`,
			Patch{Set: set("stream_options", "{}"), IncludeUsage: true},
			`{"stream_options":{},"stream":true,"model":"a",` + messages + `}`,
		},

		{
			"developer is system", `{"model":"a","messages":[{"role": "developer","content":"\"role\":\"developer\""},{"content":"hi","role":"user"},{"content":"x","role":"dev\u0065loper"}]}`,
			Patch{SystemRole: true},
			`{"model":"a","messages":[{"role": "system","content":"\"role\":\"developer\""},{"content":"hi","role":"user"},{"content":"x","role":"system"}]}`,
		},
		{"developer stays", `{"model":"a","messages":[{"role":"developer","content":"x"}]}`, Patch{}, `{"model":"a","messages":[{"role":"developer","content":"x"}]}`},
		{
			"all at once", `{"n":1,"stream":true,"messages":[{"role":"developer","content":"x"}],"model":"a","user":"u"}`,
			Patch{Model: "b", IncludeUsage: true, SystemRole: true, Drop: []string{"user"}, Set: set("n", "2")},
			`{"stream_options":{"include_usage":true},"n":2,"stream":true,"messages":[{"role":"system","content":"x"}],"model":"b"}`,
		},
	} {
		r, err := Parse([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: Parse = %v, want success", tt.name, err)
			continue
		}
		if got := string(r.AppendUpstream(nil, tt.patch)); got != tt.want {
			t.Errorf("%s: AppendUpstream(%s) = %s, want %s", tt.name, tt.body, got, tt.want)
		}
		checkPatch(t, r, tt.patch)
		if string(r.raw) != tt.body {
			t.Errorf("%s: AppendUpstream changed the caller's body to %s", tt.name, r.raw)
		}
	}
}

// TestAppendUpstreamOracle applies every patch to every good request.
func TestAppendUpstreamOracle(t *testing.T) {
	t.Parallel()
	for _, g := range goodBodies {
		r := good(t, g.name)
		for _, drop := range []string{"", "seed", "user", "stream", "stream_options", "tools", "messages", "model", "stop seed n user x", "messages tools temperature"} {
			for i := range 8 {
				p := Patch{IncludeUsage: i&1 != 0, SystemRole: i&2 != 0, Drop: strings.Fields(drop)}
				if i&4 != 0 {
					p.Model = "other"
					p.Set = []Setting{{"stop", []byte(`["x"]`)}, {"extra", []byte("1.50")}}
				}
				checkPatch(t, r, p)
			}
		}
	}
}

func TestAppendUpstreamAllocations(t *testing.T) {
	r := good(t, "small")
	dst := make([]byte, 0, 2*len(smallBody))
	patch := Patch{Model: "b", IncludeUsage: true, SystemRole: true, Drop: []string{"user"}, Set: []Setting{{"n", []byte("1")}}}
	if got := testing.AllocsPerRun(100, func() { r.AppendUpstream(dst, patch) }); got != 0 {
		t.Errorf("AppendUpstream makes %v allocations, want 0", got)
	}
}

// Unusual layouts: any order of members, any white space, escapes in keys.
func TestAppendUpstreamAnyLayout(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	space := func() string {
		return strings.Repeat(" ", rng.IntN(2)) + strings.Repeat("\n", rng.IntN(2)) + strings.Repeat("\t\r", rng.IntN(2))
	}
	pick := func(choices ...string) string { return choices[rng.IntN(len(choices))] }
	key := func(name string) string {
		if rng.IntN(3) > 0 {
			return `"` + name + `"`
		}
		i := rng.IntN(len(name))
		return fmt.Sprintf(`"%s\u%04x%s"`, name[:i], name[i], name[i+1:])
	}
	object := func(members ...[2]string) string {
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		var b strings.Builder
		for i, m := range members {
			if i > 0 {
				b.WriteString(space() + ",")
			}
			b.WriteString(space() + key(m[0]) + space() + ":" + space() + m[1])
		}
		return "{" + b.String() + space() + "}"
	}
	names := []string{"model", "messages", "stream", "stream_options", "user", "x", "seed", "stop", "y"}
	for range 2000 {
		message := object([2]string{"role", pick(`"user"`, `"developer"`, `"\u0064eveloper"`, `"system"`)}, [2]string{"content", pick(`""`, `"a,}\"]"`, `"é"`)}, [2]string{pick("tool_calls", "name"), "[" + space() + "]"})
		members := [][2]string{
			{"model", pick(`"a"`, `"\u0061"`)},
			{"messages", "[" + space() + message + space() + "," + message + "]"},
			{"stream", pick("true", "true", "false", "null")},
		}
		if rng.IntN(3) > 0 {
			options := [][2]string{}
			if rng.IntN(2) > 0 {
				options = append(options, [2]string{"include_usage", pick("true", "false", "null")})
			}
			if rng.IntN(2) > 0 {
				options = append(options, [2]string{"other", pick("1", `"include_usage"`, `{"include_usage":false}`)})
			}
			members = append(members, [2]string{"stream_options", pick("null", object(options...), object(options...))})
		}
		for _, name := range []string{"user", "x", "seed", "stop", "y"} {
			if rng.IntN(2) > 0 {
				members = append(members, [2]string{name, pick(`"u"`, `["a","b"]`, "null", "[]")})
			}
		}
		body := space() + object(members...) + space()
		r, err := Parse([]byte(body))
		if err != nil {
			t.Fatalf("Parse(%s) = %v, want success", body, err)
		}
		p := Patch{Model: pick("", "b", `"`), IncludeUsage: rng.IntN(2) > 0, SystemRole: rng.IntN(2) > 0}
		for range rng.IntN(5) {
			p.Drop = append(p.Drop, pick(names...))
		}
		if rng.IntN(2) > 0 {
			p.Set = []Setting{{pick(names[3:]...), []byte(pick("[1]", "null", `{"a":"b"}`))}, {"z", []byte("0")}}
		}
		checkPatch(t, r, p)
	}
}

// What is empty asks for nothing, and many upstreams answer it with a 400. It is left out for all of them.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[]}`, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		{`{"tools": [ ] ,"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":"none","parallel_tool_calls":true,"stop":[]}`, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		{`{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":[],"tool_choice":"auto"}`, `{"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":"auto"}`},
		{`{"model":"m","messages":[{"role":"assistant","content":"a","tool_calls":[]},{"role":"user","content":"hi"}]}`, `{"model":"m","messages":[{"role":"assistant","content":"a"},{"role":"user","content":"hi"}]}`},
		{`{"model":"m","messages":[{ "tool_calls" : [ ] , "role":"assistant","content":"a"},{"role":"user","tool_calls":[],"content":"hi"}]}`, `{"model":"m","messages":[{ "role":"assistant","content":"a"},{"role":"user","content":"hi"}]}`},
		{`{"model":"m","messages":[{"tool_calls":[],"role":"developer","content":"a"}]}`, `{"model":"m","messages":[{"role":"system","content":"a"}]}`},
		{`{"model":"m","messages":[{"role":"developer","content":"a","tool_calls":[]},{"role":"developer","content":"a"}]}`, `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"system","content":"a"}]}`},
	} {
		r, err := Parse([]byte(tt.body))
		if err != nil {
			t.Errorf("Parse(%s) = %v", tt.body, err)
			continue
		}
		if got := string(r.AppendUpstream(nil, Patch{SystemRole: true})); got != tt.want {
			t.Errorf("AppendUpstream of %s = %s, want %s", tt.body, got, tt.want)
		}
		pieces := r.upstream(Patch{SystemRole: true}, 0)
		if got := string(bytes.Join(pieces[:], nil)); got != tt.want {
			t.Errorf("Upstream of %s = %s, want %s", tt.body, got, tt.want)
		}
		for _, m := range r.Messages {
			if !json.Valid(m.Raw()) || bytes.Contains(m.Raw(), []byte("tool_calls")) {
				t.Errorf("Raw of a message of %s = %s, want none without calls", tt.body, m.Raw())
			}
		}
	}
}
