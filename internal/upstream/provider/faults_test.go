package provider_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// body is an error body with the message.
func errorBody(message string) []byte {
	return []byte(`{"error":{"message":"` + message + `","type":"invalid_request_error"}}`)
}

const refusedBecause = "The model's provider refused the request: "

func TestRefusedFindsTheSentence(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"Too long."}}`:                                          "Too long.",
		`{"error":"Too long."}`:                                                      "Too long.",
		`{"object":"error","message":"Too long.","code":400}`:                        "Too long.",
		`{"detail":"Too long."}`:                                                     "Too long.",
		`{"detail":[{"loc":["body","n"],"msg":"Too long."}]}`:                        "Too long.",
		`{"message":{"detail":[{"msg":"Too long."}]}}`:                               "Too long.",
		`[{"error":{"code":400,"message":"Too long.","status":"INVALID_ARGUMENT"}}]`: "Too long.",
		`{"error":{"message":"  Too\n\n long.\t"}}`:                                  "Too long.",
		`{"error":null,"message":"Too long."}`:                                       "Too long.",
		`{"error":{"message":""},"detail":"Too long."}`:                              "Too long.",
		``: "no reason was given", `{`: "no reason was given", `{}`: "no reason was given", `[]`: "no reason was given",
		`<html><body>Too long.</body></html>`: "no reason was given", `Too long.`: "no reason was given",
	} {
		f := provider.Refused(http.StatusBadRequest, nil, []byte(body))
		if f.Kind != fault.Invalid || f.Message != refusedBecause+want {
			t.Errorf("Refused(400, %s) = %v %q, want %q", body, f.Kind, f.Message, refusedBecause+want)
		}
	}
}

func TestRefusedIsClean(t *testing.T) {
	t.Parallel()
	const long = "0123456789012345678901234567890123456789012345678901234567890123456789"
	for in, want := range map[string]string{
		"Plain words stay as they are: max_tokens must be < 5.": "Plain words stay as they are: max_tokens must be < 5.",
		"Größe 日本 bleibt.":                                      "Größe 日本 bleibt.",
		"See https://platform.example.com/docs?key=1 for more":  "See … for more",
		"At wss://host/path and grpc://10.0.0.1:50051":          "At … and …",
		"Bad key sk-proj-abcdef123456 given":                    "Bad key … given",
		"Bad key sk-ab****wxyz given":                           "Bad key … given",
		"Project proj_abcdefgh in org-12345678":                 "Project … in …",
		"Key AIzaSyA1234567890abcdefgh is not valid":            "Key … is not valid",
		"Header was Bearer abc.def":                             "Header was …",
		"Token " + long + " expired":                            "Token … expired",
		"dial tcp 10.1.2.3:443: connection refused":             "dial tcp …: connection refused",
		"lookup of 192.168.0.17 failed":                         "lookup of … failed",
		"no route to vllm.internal.svc.cluster.local:8000 now":  "no route to … now",
		"dial tcp [fe80::1]:443 refused":                        "dial tcp … refused",
		"values[1:3] and messages[0].content stay":              "values[1:3] and messages[0].content stay",
		"a \\u0000\\u001b[31mred\\u001b[0m b":                   "a [31mred [0m b",
		strings.Repeat("word ", 200):                            strings.Repeat("word ", 80) + "…",
		strings.Repeat("é ", 300):                               "",
	} {
		f := provider.Refused(http.StatusUnprocessableEntity, nil, errorBody(in))
		got, ok := strings.CutPrefix(f.Message, refusedBecause)
		if !ok || want != "" && got != want {
			t.Errorf("Refused(%q) = %q, want %q", in, got, want)
		}
		if len(got) > 410 || strings.ContainsAny(got, "\x00\x1b\n\uFFFD") {
			t.Errorf("Refused(%q) = %q, want it short and printable", in, got)
		}
	}
}

func TestRefusedKinds(t *testing.T) {
	t.Parallel()
	for status := 300; status < 600; status++ {
		f := provider.Refused(status, http.Header{}, errorBody("The reason."))
		kind, told := fault.Unavailable, false
		if status == 400 || status == 413 || status == 422 {
			kind, told = fault.Invalid, true
		}
		if f.Kind != kind || strings.Contains(f.Message, "The reason.") != told || f.Retryable() == told {
			t.Errorf("Refused(%d) = %v %q", status, f.Kind, f.Message)
		}
		if !strings.Contains(f.Error(), "The reason.") {
			t.Errorf("Refused(%d): the log reads %q, want the reason in it", status, f.Error())
		}
		if (f.RetryAfter > 0) != (kind == fault.Unavailable) {
			t.Errorf("Refused(%d) may be tried again after %v", status, f.RetryAfter)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		seconds, ms string
		want        time.Duration
	}{
		{"", "", time.Second},
		{"3", "", 3 * time.Second},
		{"0.5", "", 500 * time.Millisecond},
		{"3", "250", 250 * time.Millisecond},
		{"3", "x", 3 * time.Second},
		{"", "12.5", 12500 * time.Microsecond},
		{"0", "0", time.Second},
		{"-3", "", time.Second},
		{"soon", "", time.Second},
		{"Wed, 21 Oct 2026 07:28:00 GMT", "", time.Second},
		{"Fri, 31 Dec 2100 23:59:59 GMT", "", time.Hour},
		{"9223372036854775807", "", time.Hour},
		{"", "1e30", time.Hour},
		{"NaN", "", time.Second},
		{"Inf", "", time.Hour},
	} {
		h := http.Header{}
		if tt.seconds != "" {
			h.Set("Retry-After", tt.seconds)
		}
		if tt.ms != "" {
			h.Set("Retry-After-Ms", tt.ms)
		}
		for _, status := range []int{429, 503} {
			if f := provider.Refused(status, h, nil); f.RetryAfter != tt.want {
				t.Errorf("Refused(%d, Retry-After %q, %q ms): after %v, want %v", status, tt.seconds, tt.ms, f.RetryAfter, tt.want)
			}
		}
	}
}

func TestFaultsTellNothing(t *testing.T) {
	t.Parallel()
	inside := errors.New(`Post "https://user:secret@api.example.com/v1": dial tcp 10.9.8.7:443: refused, sk-secret-123456`)
	for name, f := range map[string]*fault.Fault{
		"Unreachable": provider.Unreachable(inside),
		"Cut":         provider.Cut(inside),
		"Garbled":     provider.Garbled(errors.New("invalid character")),
		"Stalled":     provider.Stalled(time.Minute),
		"Failed":      provider.Failed([]byte(`{"message":"sk-secret-123456 at https://api.example.com/v1"}`)),
		"Failed text": provider.Failed([]byte(`"sk-secret-123456 at https://api.example.com/v1"`)),
	} {
		if f.Kind != fault.Unavailable || f.RetryAfter != time.Second || !f.Retryable() {
			t.Errorf("%s = %v after %v, want 503 after a second", name, f.Kind, f.RetryAfter)
		}
		if f.Unwrap() == nil {
			t.Errorf("%s has no cause for the log", name)
		}
		for _, secret := range []string{"secret", "example.com", "10.9.8.7"} {
			if strings.Contains(f.Error(), secret) {
				t.Errorf("%s reads %q, want no %q", name, f.Error(), secret)
			}
		}
	}
	if f := provider.Cut(context.Canceled); !errors.Is(f, context.Canceled) {
		t.Errorf("Cut(canceled) = %v, want the reason kept", f)
	}
}
