package messages

import (
	"testing"

	"sluice/internal/kit/fault"
)

// A prompt that is too long is told in the words that clients of the dialect look for, at the beginning of the message. What
// is in the caller's words already stays.
func TestExplainLong(t *testing.T) {
	t.Parallel()
	quoted := fault.New(fault.Invalid, "tools.0.name: no").At("tools[0]")
	quoted.Quoted, quoted.Type, quoted.Code = true, "request_too_large", 413
	for want, f := range map[string]*fault.Fault{
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205123 tokens \u003e 200000 maximum. Do better."},"request_id":"r"}`:                                                                                                  fault.NewLong(fault.Long{Tokens: 205123, Most: 200000, Advice: "Do better."}),
		"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 188240 + 21333 \\u003e 200000, decrease input length or `max_tokens` and try again. Do better.\"},\"request_id\":\"r\"}": fault.NewLong(fault.Long{Tokens: 188240, Reply: 21333, Most: 200000, Advice: "Do better."}),
		`{"type":"error","error":{"type":"request_too_large","message":"tools.0.name: no"},"request_id":"r"}`:                                                                                                                                                         quoted,
	} {
		r := &Request{}
		for range 2 { // a stream tells it, and then the log
			_ = r.Explain(f)
		}
		if got := string(ErrorBody(f, "r")); got != want {
			t.Errorf("the caller reads %s, want %s", got, want)
		}
	}
}
