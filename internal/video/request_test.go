package video

import (
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

func TestParse(t *testing.T) {
	t.Parallel()
	plain := Request{Prompt: "a lighthouse", Model: "video-default", Width: 854, Height: 480, Seconds: 5}
	with := func(change func(*Request)) Request {
		r := plain
		change(&r)
		return r
	}
	for body, want := range map[string]Request{
		`{"prompt":"a lighthouse"}`: plain,
		`{"prompt":"a lighthouse","model":null,"width":null,"height":null,"n_seconds":null,"n_variants":3}`: plain,
		`{"prompt":"a lighthouse","model":"video-default","width":1080,"height":1920,"n_seconds":20}`: with(func(r *Request) {
			r.Width, r.Height, r.Seconds = 1080, 1920, 20
		}),
		`{"prompt":"a lighthouse","height":1080}`:             with(func(r *Request) { r.Height = 1080 }),
		`{"prompt":"a lighthouse","n_seconds":1.0}`:           with(func(r *Request) { r.Seconds = 1 }),
		`{"prompt":"` + strings.Repeat("é", maxPrompt) + `"}`: with(func(r *Request) { r.Prompt = strings.Repeat("é", maxPrompt) }),
	} {
		if got, err := Parse([]byte(body), "video-default"); err != nil || got != want {
			t.Errorf("Parse(%.80s) = %+v, %v, want %+v", body, got, err, want)
		}
	}
	for _, tt := range []struct{ body, param, says string }{
		{``, "", "is empty; send a JSON object"},
		{`{`, "", "Malformed JSON"},
		{`{"prompt":"x"`, "", "Malformed JSON"},
		{`{"prompt":"x"} {}`, "", "Malformed JSON"},
		{`{"prompt":"x",}`, "", "Malformed JSON"},
		{`[]`, "", "JSON object"},
		{`null`, "", "JSON object"},
		{`{}`, "prompt", "required"},
		{`{"prompt":null}`, "prompt", "required"},
		{`{"prompt":""}`, "prompt", "empty"},
		{`{"prompt":" \n"}`, "prompt", "empty"},
		{`{"prompt":7}`, "prompt", "string"},
		{`{"prompt":"a\u0000b"}`, "prompt", "U+0000"},
		{`{"prompt":"` + strings.Repeat("é", maxPrompt+1) + `"}`, "prompt", "32001 characters; 32000 is the most"},
		{`{"prompt":"x","prompt":"y"}`, "prompt", "twice"},
		{`{"prompt":"x","Prompt":"y"}`, "Prompt", "twice"},
		{`{"prompt":"x","n_\u0053econds":20}`, "n_Seconds", "twice"},
		{`{"prompt":"x","n_ſeconds":20}`, `["n_ſeconds"]`, "twice"},
		{`{"prompt":"x","model":"sora"}`, "model", `the only one is "video-default"`},
		{`{"prompt":"x","model":3}`, "model", "string"},
		{`{"prompt":"x","width":500}`, "width", "one of 480, 720, 854, 1080, 1280, 1920; got 500"},
		{`{"prompt":"x","width":"480"}`, "width", `got "480"`},
		{`{"prompt":"x","width":480.5}`, "width", "got 480.5"},
		{`{"prompt":"x","height":true}`, "height", "got true"},
		{`{"prompt":"x","height":1e99}`, "height", "got 1e99"},
		{`{"prompt":"x","n_seconds":0}`, "n_seconds", "1 to 20; got 0"},
		{`{"prompt":"x","n_seconds":21}`, "n_seconds", "got 21"},
		{`{"prompt":"x","n_seconds":"5"}`, "n_seconds", `got "5"`},
		{`{"prompt":"x","n_seconds":[5]}`, "n_seconds", "got [5]"},
	} {
		_, err := Parse([]byte(tt.body), "video-default")
		if f := fault.From(err); f.Kind != fault.Invalid || f.Param != tt.param || !strings.Contains(f.Message, tt.says) {
			t.Errorf("Parse(%.80s) = %v at %q, want a 400 at %q that says %q", tt.body, err, f.Param, tt.param, tt.says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"prompt":"x","width":480,"height":720,"n_seconds":5,"model":"video-default"}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := Parse([]byte(body), "video-default")
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("Parse(%q) = %v, want a 400", body, err)
		}
		if err == nil && (r.costMilli() == 0 || r.Seconds < 1 || r.Seconds > maxSeconds || strings.TrimSpace(r.Prompt) == "") {
			t.Errorf("Parse(%q) = %+v, want nothing beyond its bounds", body, r)
		}
	})
}

// TestCost is the larger of the width's and the height's multiplier (docs/api.md#video-cost).
func TestCost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width, height int
		want          int64
	}{
		{480, 480, 1000},
		{854, 480, 1000},
		{480, 854, 1000},
		{720, 480, 1500},
		{480, 1280, 1500},
		{1280, 720, 1500},
		{1080, 480, 2000},
		{720, 1920, 2000},
		{1920, 1080, 2000},
	} {
		r := Request{Width: tt.width, Height: tt.height}
		if got := r.costMilli(); got != tt.want {
			t.Errorf("costMilli(%dx%d) = %d, want %d", tt.width, tt.height, got, tt.want)
		}
	}
}
