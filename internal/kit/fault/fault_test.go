package fault_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind   fault.Kind
		status int
		name   string
		retry  bool
	}{
		{fault.Internal, 500, "server_error", true},
		{fault.Invalid, 400, "invalid_request_error", false},
		{fault.Unauthenticated, 401, "authentication_error", false},
		{fault.KeyDeactivated, 401, "key_deactivated", false},
		{fault.PaymentRequired, 402, "payment_required", false},
		{fault.PlanTooLow, 403, "permission_error", false},
		{fault.NotFound, 404, "not_found_error", false},
		{fault.MethodNotAllowed, 405, "method_not_allowed", false},
		{fault.Conflict, 409, "conflict", true},
		{fault.TooLarge, 413, "request_too_large", false},
		{fault.Suspended, 423, "account_suspended", false},
		{fault.RateLimited, 429, "rate_limit_error", true},
		{fault.Unavailable, 503, "service_unavailable", true},
		{fault.Timeout, 408, "request_timeout", true},
		{fault.Forbidden, 403, "permission_error", false},
	}
	if got, want := len(tests), int(fault.Forbidden)+1; got != want {
		t.Fatalf("%d kinds are tested, want all %d", got, want)
	}
	for _, tt := range tests {
		f := fault.New(tt.kind, "m")
		if tt.kind.Status() != tt.status || tt.kind.String() != tt.name || f.Retryable() != tt.retry {
			t.Errorf("kind %d = %d, %s, retryable %t, want %d, %s, %t",
				tt.kind, tt.kind.Status(), tt.kind, f.Retryable(), tt.status, tt.name, tt.retry)
		}
		f.Final = true
		if f.Retryable() {
			t.Errorf("a final %s is retryable", tt.name)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for k := range fault.Unavailable + 1 {
		if got := fault.Named(k.String(), 0); got != k {
			t.Errorf("Named(%s) = %s, want the same", k, got)
		}
	}
	for _, tt := range []struct {
		name   string
		status int
		want   fault.Kind
	}{
		{"conflict", 500, fault.Conflict}, // the name counts
		{"of_tomorrow", 409, fault.Conflict},
		{"of_tomorrow", 401, fault.Unauthenticated},
		{"of_tomorrow", 418, fault.Invalid},
		{"of_tomorrow", 503, fault.Unavailable},
		{"of_tomorrow", 507, fault.Internal},
		{"permission_error", 0, fault.PlanTooLow}, // as Forbidden reads over a wire
		{"", 404, fault.NotFound},
		{"", 0, fault.Internal},
	} {
		if got := fault.Named(tt.name, tt.status); got != tt.want {
			t.Errorf("Named(%q, %d) = %s, want %s", tt.name, tt.status, got, tt.want)
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.RateLimited, "%d of %d", 3, 2).At("messages[2].content").After(time.Second).Because(io.ErrUnexpectedEOF)
	if f.Message != "3 of 2" || f.Param != "messages[2].content" || f.RetryAfter != time.Second {
		t.Errorf("the fault = %+v, want what was given", f)
	}
	if got, want := f.Error(), "3 of 2: unexpected EOF"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if !errors.Is(f, io.ErrUnexpectedEOF) {
		t.Error("the cause is not found in the fault")
	}
	if got, want := fault.New(fault.Invalid, "m").Error(), "m"; got != want {
		t.Errorf("Error() without a cause = %q, want %q", got, want)
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.NotFound, "no model")
	if got := fault.From(fmt.Errorf("look up: %w", f)); got != f {
		t.Errorf("From(wrapped fault) = %v, want the fault itself", got)
	}
	inside := errors.New("dial tcp 10.1.2.3: canary")
	got := fault.From(inside)
	if got.Kind != fault.Internal || strings.Contains(got.Message, "canary") {
		t.Errorf("From(other error) = %s %q, want an internal fault that tells nothing of it", got.Kind, got.Message)
	}
	if !errors.Is(got, inside) || !strings.Contains(got.Error(), "canary") {
		t.Errorf("From(other error).Error() = %q, want the cause for the log", got.Error())
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.Conflict, "m")
	for _, tt := range []struct {
		err  error
		kind fault.Kind
		want bool
	}{
		{f, fault.Conflict, true},
		{fmt.Errorf("w: %w", f), fault.Conflict, true},
		{f, fault.Invalid, false},
		{errors.New("m"), fault.Internal, false},
		{nil, fault.Internal, false},
	} {
		if got := fault.Is(tt.err, tt.kind); got != tt.want {
			t.Errorf("Is(%v, %s) = %t, want %t", tt.err, tt.kind, got, tt.want)
		}
	}
}

func TestSetRetry(t *testing.T) {
	t.Parallel()
	never := fault.New(fault.RateLimited, "m").After(time.Second)
	never.Final = true
	for _, tt := range []struct {
		f                *fault.Fault
		after, ms, again string
	}{
		{fault.New(fault.Invalid, "m").After(time.Second), "", "", "false"},
		{never, "", "", "false"},
		{fault.New(fault.BudgetExceeded, "m"), "", "", "false"},
		{fault.New(fault.BudgetExceeded, "m").After(time.Hour), "3600", "", "false"},
		{fault.New(fault.Internal, "m"), "", "", ""},
		{fault.New(fault.Unavailable, "m"), "1", "1000", ""},
		{fault.New(fault.RateLimited, "m").After(1500*time.Millisecond + 1), "2", "1501", ""},
		{fault.New(fault.RateLimited, "m").After(time.Minute + 3*time.Millisecond), "60", "60003", ""},
		{fault.New(fault.RateLimited, "m").After(time.Hour), "60", "60010", ""},
	} {
		h := http.Header{}
		tt.f.SetRetry(h)
		if after, ms, again := h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("X-Should-Retry"); after != tt.after || ms != tt.ms || again != tt.again {
			t.Errorf("SetRetry of %+v = %q, %q, %q, want %q, %q, %q", tt.f, after, ms, again, tt.after, tt.ms, tt.again)
		}
	}
	h := http.Header{}
	fault.SetRetryAfter(h, 0)
	fault.SetRetryAfter(h, 15*time.Minute+1)
	if got := h.Get("Retry-After"); got != "901" || len(h) != 1 {
		t.Errorf("SetRetryAfter(15 minutes and a bit) = %v, want 901", h)
	}
}
