package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// Who is to blame for a refusal follows from its status, its body and the request.
func TestBlame(t *testing.T) {
	t.Parallel()
	const plain = `{"model":"gpt-example","messages":[{"role":"user","content":"Tell me of the \"thread\" file_id."}]}`
	const threaded = `{"model":"gpt-example","thread":{"type":"continue","previous_message_id":"msg_1"},"messages":[]}`
	const referring = `{"model":"gpt-example","novelty":{"ref":"nov_8812"},"messages":[]}`
	for _, tt := range []struct {
		status        int
		body, request string
		kind          fault.Kind
		counts        bool
	}{
		// Something stored that is not there.
		{404, `{"error":{"message":"Unknown thread."}}`, threaded, fault.NotFound, false},
		{410, `{"error":{"message":"The thread has expired."}}`, threaded, fault.NotFound, false},
		{409, `{"error":{"message":"The thread is in use."}}`, threaded, fault.Conflict, false},
		{404, `{"error":{"message":"nov_8812 was not found."}}`, referring, fault.NotFound, false},
		{403, `{"error":{"message":"You do not have permission to access nov_8812 or it may not exist.","status":"PERMISSION_DENIED"}}`, referring, fault.Invalid, false},
		{404, `{"error":{"message":"Not found","param":"input[2].id"}}`, plain, fault.NotFound, false},
		{424, `{"error":{"message":"Error retrieving tool list","type":"external_connector_error","param":"tools"}}`, plain, fault.Invalid, false},
		// Nothing in the request could be missing, or it is the model that is.
		{404, `{"error":{"message":"Unknown thread."}}`, plain, fault.Unavailable, true},
		{404, `{"error":{"message":"gpt-example is gone."}}`, plain, fault.Unavailable, true},
		{404, `{"error":{"message":"The model gpt-example does not exist.","code":"model_not_found"}}`, threaded, fault.Unavailable, true},
		{404, `{"error":{"message":"The API deployment for this resource does not exist.","code":"DeploymentNotFound"}}`, threaded, fault.Unavailable, true},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: gpt-example"}}`, threaded, fault.Unavailable, true},
		{404, `{"error":"model 'gpt-example' not found"}`, threaded, fault.Unavailable, true},
		{404, `{"error":{"message":"No endpoints found for gpt-example.","code":404}}`, threaded, fault.Unavailable, true},
		{404, `<html>nginx</html>`, threaded, fault.Unavailable, true},
		{404, ``, threaded, fault.Unavailable, true},
		// Content.
		{403, `{"code":"permission-denied","error":"Content violates usage guidelines. "}`, plain, fault.Invalid, false},
		{403, `{"error":{"code":403,"message":"flagged","metadata":{"flagged_input":"x"}}}`, plain, fault.Invalid, false},
		{451, `{"error":{"message":"no","code":"content_filter"}}`, plain, fault.Invalid, false},
		// The key, the account, the load: the operator's, whatever the request names.
		{401, `{"error":{"message":"nov_8812","param":"thread"}}`, referring, fault.Unavailable, true},
		{402, `{"error":{"message":"nov_8812","param":"thread"}}`, referring, fault.Unavailable, true},
		{403, `{"error":{"message":"Access to the endpoint is denied"}}`, threaded, fault.Unavailable, true},
		{429, `{"error":{"message":"Slow down, nov_8812","param":"thread"}}`, referring, fault.Unavailable, true},
		{429, `{"error":{"message":"Request too large for gpt-example on tokens per min (TPM)"}}`, plain, fault.Unavailable, false},
		{500, `{"error":{"message":"nov_8812","param":"thread"}}`, referring, fault.Unavailable, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		u, _ := url.Parse(server.URL)
		c := provider.NewClient(nil)
		var reply provider.Reply
		err := c.Post(t.Context(), &reply, u, http.Header{}, []byte(tt.request))
		if !fault.Is(err, tt.kind) || provider.Counts(err) != tt.counts || !provider.WasSent(err) {
			t.Errorf("%d %s for %s = %v, counts %t; want %v, counts %t", tt.status, tt.body, tt.request, err, provider.Counts(err), tt.kind, tt.counts)
		}
		c.Close()
		server.Close()
	}
}

// Failures without a status: what breaks on the upstream's side counts, what the caller does not.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{provider.Unreachable(errors.New("connection refused")), true},
		{provider.Cut(io.ErrUnexpectedEOF), true},
		{provider.Garbled(io.ErrUnexpectedEOF), true},
		{provider.Late(1), true},
		{provider.Stalled(1), true},
		{provider.Failed([]byte(`{"message":"overloaded","type":"server_error"}`)), true},
		{provider.Failed([]byte(`{"code":"rate_limit_exceeded","message":"slow"}`)), true},
		{provider.Failed([]byte(`{"code":"server_error","message":"broken"}`)), true},
		{provider.Failed([]byte(`{"code":"vector_store_timeout","message":"late"}`)), true},
		{provider.Failed([]byte(`{"code":502,"message":"broken"}`)), true},
		{provider.Failed([]byte(`{"code":400,"message":"wrong"}`)), false},
		{provider.Failed([]byte(`{"code":"invalid_prompt","message":"wrong"}`)), false},
		{provider.Failed([]byte(`{"code":"image_too_large","message":"wrong"}`)), false},
		{provider.Failed([]byte(`{"code":"failed_to_download_image","message":"wrong"}`)), false},
		{provider.Failed([]byte(`{"type":"invalid_request_error","message":"wrong"}`)), false},
		{provider.Own(provider.Sent(provider.Cut(nil))), false},
		{provider.Sent(provider.Own(provider.Cut(nil))), false},
		{fault.New(fault.Unavailable, "asked for").Because(provider.ErrWanted), false},
		{fault.New(fault.Invalid, "wrong"), false},
		{context.Canceled, false},
		{io.EOF, false},
	} {
		if got := provider.Counts(tt.err); got != tt.want {
			t.Errorf("Counts(%v) = %t, want %t", tt.err, got, tt.want)
		}
	}
}

// Details reach the caller if they are an object of a bounded size, without addresses.
func TestDetails(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 6) + "1" + strings.Repeat("}", 6)
	for details, want := range map[string]string{
		`{"error_code":"thread_unsupported_request","n":1,"list":[true,null]}`: `{"error_code":"thread_unsupported_request","list":[true,null],"n":1}`,
		`{"see":"https://inside.example.com/secret"}`:                          `{"see":"…"}`,
		`[{"@type":"ErrorInfo"}]`:                                              "",
		`"text"`:                                                               "",
		`{}`:                                                                   "",
		deep:                                                                   "",
		`{"long":["` + strings.Repeat(strings.Repeat("a ", 180)+`","`, 20) + `"]}`: "",
	} {
		f := provider.Refused(400, nil, []byte(`{"error":{"message":"no","details":`+details+`}}`))
		if string(f.Details) != want {
			t.Errorf("details %s = %s, want %s", details, f.Details, want)
		}
	}
	f := provider.Refused(400, nil, []byte(`{"error":{"message":"no","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"},"misalignment":{"error_type":"other","steer":{"message":"Stop at https://x"}},"metadata":{"raw":"x"}}}`))
	if want := `{"innererror":{"code":"ResponsibleAIPolicyViolation"},"misalignment":{"error_type":"other","steer":{"message":"Stop at …"}}}`; string(f.Details) != want {
		t.Errorf("what stands beside the message = %s, want %s", f.Details, want)
	}
	if f := provider.Refused(500, nil, []byte(`{"error":{"message":"no","details":{"a":1}}}`)); f.Details != nil {
		t.Errorf("details of a 500 = %s, want none", f.Details)
	}
}
