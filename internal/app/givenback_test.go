package app_test

import (
	"testing"

	"sluice/internal/operate/admin"
)

// Calls that fail are given back a few times a minute. An account cannot load an upstream that fails without end, and what
// is recorded is what its limit counts.
func TestFailedCallsAreGivenBackAFewTimes(t *testing.T) {
	t.Parallel()
	const limit, back = 20, 10
	n := newSite(t, "plans: {basic: {requests_per_minute: 20}}\n").start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	failed := 0
	for {
		r := n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"[[sandbox:error=503]]"}]}`)
		if r.status == 429 {
			break
		}
		if r.status != 503 {
			t.Fatalf("a call = %d %s, want 503", r.status, r.body)
		}
		if failed++; failed > 3*(limit+2*back) { // a new minute may begin meanwhile
			t.Fatalf("%d calls failed and none was refused, want an end", failed)
		}
	}
	if failed < limit+back {
		t.Errorf("%d calls were admitted, want the %d of the limit and %d that were given back", failed, limit, back)
	}
	settled(n.App)
	var got int64
	if err := openSQLite(t, n.site).QueryRow("SELECT sum(request_milli) FROM settlements").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got < 1000*limit || got > 1000*int64(failed-back) {
		t.Errorf("%d failed calls are recorded as %d thousandths of requests, want %d at least, and %d calls for nothing", failed, got, 1000*limit, back)
	}
}
