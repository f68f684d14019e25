package embeddings_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*embeddings.Request{
		`{"model":"m","input":"a b"}`:                                    {Model: "m", Inputs: []embeddings.Input{{Text: "a b"}}},
		`{"model":"m","input":["a","ü"],"encoding_format":"float"}`:      {Model: "m", Inputs: []embeddings.Input{{Text: "a"}, {Text: "ü"}}},
		`{"model":"m","input":[1,20,0],"encoding_format":"base64"}`:      {Model: "m", Inputs: []embeddings.Input{{Tokens: []int{1, 20, 0}}}, Base64: true},
		`{"model":"m","input":[[1],[2,3]],"dimensions":7,"user":"u"}`:    {Model: "m", Inputs: []embeddings.Input{{Tokens: []int{1}}, {Tokens: []int{2, 3}}}, Dimensions: 7, User: "u"},
		` {"input" : [ "a" ] , "model" : "m" , "unknown" : { "x" : 1 }}`: {Model: "m", Inputs: []embeddings.Input{{Text: "a"}}},
		`{"model":"m","input":"a","dimensions":null,"user":null,"encoding_format":null}`: {
			Model: "m", Inputs: []embeddings.Input{{Text: "a"}},
		},
		`{"model":"m","input":"a","max_cost":1e-3,"budget":{"clamp":true}}`:    {Model: "m", Inputs: []embeddings.Input{{Text: "a"}}, MaxCost: "1e-3"},
		`{"model":"m","input":"a","max_cost":0,"budget":{"clamp":null}}`:       {Model: "m", Inputs: []embeddings.Input{{Text: "a"}}, MaxCost: "0"},
		`{"model":"m","input":"a","max_cost":null,"budget":null,"usage":null}`: {Model: "m", Inputs: []embeddings.Input{{Text: "a"}}},
	} {
		got, err := embeddings.Parse([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Parse(%s) = %v, -want +got\n%s", body, err, cmp.Diff(want, got))
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	words := func(text string) int { return len(strings.Fields(text)) }
	req := func(inputs ...embeddings.Input) *embeddings.Request {
		return &embeddings.Request{Model: "m", Inputs: inputs}
	}
	long := embeddings.Input{Text: strings.Repeat("a ", 10)}
	if n, err := req(long, embeddings.Input{Tokens: make([]int, 3)}).Check(10, words); n != 13 || err != nil {
		t.Errorf("Check = %d, %v, want 13 tokens", n, err)
	}
	for want, r := range map[string]*embeddings.Request{
		`input has 10 tokens; the model "m" reads at most 9 of one input`:           req(long),
		`input[1] has 10 tokens; the model "m" reads at most 9 of one input`:        req(embeddings.Input{Text: "a"}, long),
		`input has more than 62 tokens; the model "m" reads at most 9 of one input`: req(embeddings.Input{Text: strings.Repeat("a", 1000)}),
		`input[0] has 10 tokens; the model "m" reads at most 9 of one input`:        req(embeddings.Input{Tokens: make([]int, 10)}, long),
	} {
		if _, err := r.Check(9, words); err == nil || fault.From(err).Message != want {
			t.Errorf("Check = %v, want %s", err, want)
		}
	}
	all := req()
	for range 301 {
		all.Inputs = append(all.Inputs, embeddings.Input{Tokens: make([]int, 1000)})
	}
	if _, err := all.Check(8192, words); err == nil || fault.From(err).Message != "input has more than 300000 tokens in all, the most of one request" {
		t.Errorf("Check of 301,000 tokens = %v", err)
	}
	if all.Sure(8192) || !req(long).Sure(20) || req(long).Sure(19) {
		t.Error("Sure does not follow the bounds")
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	raw := func(text string) embeddings.Vector {
		v, err := embeddings.ReadVector(json.RawMessage(text))
		if err != nil {
			t.Fatalf("ReadVector(%s) = %v", text, err)
		}
		return v
	}
	numbers := embeddings.Vector{Values: []float32{0.5, -1, 1e-9, 0}}
	const packed = `"AAAAPwAAgL9fcIkwAAAAAA=="`
	for _, tt := range []struct {
		name   string
		v      embeddings.Vector
		base64 bool
		want   string
	}{
		{"numbers", numbers, false, `[0.5,-1,1e-09,0]`},
		{"base64", numbers, true, packed},
		{"numbers as they came", raw(`[0.50, -1]`), false, `[0.50, -1]`},
		{"numbers that came, as base64", raw(`[0.5,-1,1e-9,0]`), true, packed},
		{"base64 as it came", raw(packed), true, packed},
		{"base64 that came, as numbers", raw(packed), false, `[0.5,-1,1e-09,0]`},
	} {
		v := &embeddings.Vectors{List: []embeddings.Vector{tt.v}}
		want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + tt.want + `}],"model":"lab/\"x","usage":{"prompt_tokens":3,"total_tokens":3}}`
		if got := string(v.Append(nil, `lab/"x`, tt.base64, 3)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: Append = %s, want %s", tt.name, got, want)
		}
	}
	for _, bad := range []string{``, `null`, `[]`, `{}`, `7`, `["a"]`, `[1e300]`, `"AAA"`, `"AAAA"`, `""`, `"!!!!"`, `"AADAfw=="`, `[1,null]`} {
		if v, err := embeddings.ReadVector(json.RawMessage(bad)); err == nil {
			t.Errorf("ReadVector(%s) = %v, want an error", bad, v.Values)
		}
	}
	two := &embeddings.Vectors{List: []embeddings.Vector{{Values: []float32{1}}, {Values: []float32{1, 2}}}}
	if two.Check(2) == nil || two.Check(3) == nil || (&embeddings.Vectors{List: two.List[:1]}).Check(1) != nil {
		t.Error("Check does not compare the vectors")
	}
	if (&embeddings.Vectors{List: []embeddings.Vector{{Values: []float32{float32(math.Inf(1))}}}}).Check(1) == nil {
		t.Error("Check lets infinity pass")
	}
}

// What Parse accepts has a model and inputs within the bounds, and what it refuses is the caller's fault.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","input":"a b","dimensions":7,"encoding_format":"base64","user":"u"}`, `{"model":"m","input":["a","b"]}`, `{"model":"m","input":[1,2]}`, `{"model":"m","input":[[1],[2]]}`,
		`{"model":"m","input":[[1],"a"]}`, `{"model":"m","input":null}`, `{"input":{}}`, `[]`, ``, "{\"model\":\"m\",\"input\":\"\\u0000\"}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := embeddings.Parse(body)
		if err != nil {
			if k := fault.From(err).Kind; k != fault.Invalid && k != fault.TooLarge {
				t.Fatalf("Parse(%q) = %v, which is not the caller's fault", body, err)
			}
			return
		}
		if r.Model == "" || len(r.Inputs) == 0 || len(r.Inputs) > 2048 {
			t.Fatalf("Parse(%q) = %+v", body, r)
		}
		for i, in := range r.Inputs {
			if (in.Text == "") == (len(in.Tokens) == 0) {
				t.Fatalf("Parse(%q): input %d = %+v, want a text or tokens", body, i, in)
			}
		}
	})
}

// Whatever vector an upstream sends, the reply is JSON with the same numbers.
func FuzzVector(f *testing.F) {
	for _, v := range []string{`[0.5,-1]`, `"AAAAPwAAgL8="`, `[1e-9]`, `[]`, `"x"`, `[1,null]`, ` [1]`} {
		f.Add([]byte(v), true)
		f.Add([]byte(v), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, packed bool) {
		if !json.Valid(raw) {
			return
		}
		var compact json.RawMessage
		if json.Unmarshal(raw, &compact) != nil {
			return
		}
		v, err := embeddings.ReadVector(compact)
		if err != nil {
			return
		}
		out := (&embeddings.Vectors{List: []embeddings.Vector{v}}).Append(nil, "m", packed, 0)
		var reply struct {
			Data []struct{ Embedding json.RawMessage }
		}
		if err := json.Unmarshal(out, &reply); err != nil {
			t.Fatalf("%s is not JSON: %v", out, err)
		}
		again, err := embeddings.ReadVector(reply.Data[0].Embedding)
		if err != nil || !reflect.DeepEqual(again.Values, v.Values) && fmt.Sprint(again.Values) != fmt.Sprint(v.Values) {
			t.Fatalf("%s became %s: %v", raw, out, err)
		}
	})
}
