package fault_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"sluice/internal/kit/fault"
)

// The two writers must agree on everything but param and the escapes.
func TestObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault       *fault.Fault
		body, event string
	}{
		{
			fault.New(fault.NotFound, "There is no model %q.", "a<b").At("model"),
			`{"error":{"message":"There is no model \"a\u003cb\".","type":"not_found_error","code":404,"param":"model"}}`,
			`{"error":{"message":"There is no model \"a<b\".","type":"not_found_error","code":404}}`,
		},
		{
			fault.New(fault.Unavailable, "é\n"),
			`{"error":{"message":"é\n","type":"service_unavailable","code":503}}`,
			`{"error":{"message":"é\n","type":"service_unavailable","code":503}}`,
		},
		{
			&fault.Fault{Kind: fault.NotFound, Message: "Gone.", Details: json.RawMessage(`{"error_code":"thread_not_found"}`)},
			`{"error":{"message":"Gone.","type":"not_found_error","code":404,"details":{"error_code":"thread_not_found"}}}`,
			`{"error":{"message":"Gone.","type":"not_found_error","code":404}}`,
		},
		{
			&fault.Fault{Kind: fault.NotFound, Message: "Gone.", Code: 410, Type: "invalid_request_error", Reason: "gone", Details: json.RawMessage(`{"n":1}`)},
			`{"error":{"message":"Gone.","type":"invalid_request_error","code":410,"details":{"error_code":"gone","n":1}}}`,
			`{"error":{"message":"Gone.","type":"invalid_request_error","code":410}}`,
		},
		{
			&fault.Fault{Kind: fault.Invalid, Message: "No.", Reason: "ours", Details: json.RawMessage(`{"error_code":"theirs"}`)},
			`{"error":{"message":"No.","type":"invalid_request_error","code":400,"details":{"error_code":"theirs"}}}`,
			`{"error":{"message":"No.","type":"invalid_request_error","code":400}}`,
		},
		{
			fault.NewLong(fault.Long{Tokens: 900, Most: 1000, Advice: "Do better."}), // an estimate
			`{"error":{"message":"This model's maximum context length is 1000 tokens. However, your messages resulted in 1001 tokens. Please reduce the length of the messages. Do better.","type":"invalid_request_error","code":400,"param":"messages","details":{"error_code":"context_length_exceeded"}}}`,
			`{"error":{"message":"This model's maximum context length is 1000 tokens. However, your messages resulted in 1001 tokens. Please reduce the length of the messages. Do better.","type":"invalid_request_error","code":400}}`,
		},
	} {
		o := tt.fault.Object()
		if got := string(o.Body()); got != tt.body {
			t.Errorf("Body() = %s, want %s", got, tt.body)
		}
		event := o.AppendEvent([]byte("data: "))
		if got := string(event); got != "data: "+tt.event {
			t.Errorf("AppendEvent() = %s, want %s", got, tt.event)
		}
		var read struct{ Error fault.Object }
		want := o
		want.Param, want.Details = "", nil
		if err := json.Unmarshal(event[len("data: "):], &read); err != nil || !reflect.DeepEqual(read.Error, want) {
			t.Errorf("AppendEvent() reads as %+v, %v, want %+v", read.Error, err, want)
		}
	}
}

func TestAppendEventAllocates(t *testing.T) {
	f := fault.New(fault.Timeout, "The upstream was silent for 30 s.")
	room := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { room = f.Object().AppendEvent(room[:0]) }); n != 0 {
		t.Errorf("AppendEvent allocates %v times, want 0", n)
	}
}
