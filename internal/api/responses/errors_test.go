package responses_test

import (
	"testing"

	"sluice/internal/api/responses"
	"sluice/internal/kit/fault"
)

// The code is a name where there is one, and the status otherwise.
func TestErrorBody(t *testing.T) {
	t.Parallel()
	long := fault.NewLong(fault.Long{Tokens: 20, Most: 10, Advice: "Do better."}).At("input")
	for want, f := range map[string]*fault.Fault{
		`{"error":{"message":"No.","type":"invalid_request_error","code":400,"param":"input"}}`: fault.New(fault.Invalid, "No.").At("input"),
		`{"error":{"message":"No.","type":"not_found_error","param":"input","details":{"n":1},"code":"item_not_found"}}`: {
			Kind: fault.NotFound, Message: "No.", Param: "input", Reason: "item_not_found", Details: []byte(`{"n":1}`),
		},
		`{"error":{"message":"` + long.Message + `","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`: long,
	} {
		if got := string(responses.ErrorBody(f)); got != want {
			t.Errorf("ErrorBody(%v) = %s, want %s", f, got, want)
		}
	}
}
