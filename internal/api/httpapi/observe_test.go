package httpapi

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRemote(t *testing.T) {
	t.Parallel()
	none := []netip.Prefix(nil)
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tt := range map[string]struct {
		addr      string
		forwarded []string
		trusted   []netip.Prefix
		want      string
	}{
		"no proxy":                  {"192.0.2.1:5", nil, none, "192.0.2.1"},
		"no proxy, IPv6":            {"[2001:db8::1]:5", nil, none, "2001:db8::1"},
		"nobody is trusted":         {"10.0.0.1:5", []string{"198.51.100.7"}, none, "10.0.0.1"},
		"a stranger claims":         {"192.0.2.1:5", []string{"198.51.100.7"}, proxies, "192.0.2.1"},
		"a trusted proxy":           {"10.0.0.1:5", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		"a trusted proxy, IPv6":     {"[fd00::1]:5", []string{"2001:db8::9"}, proxies, "2001:db8::9"},
		"two trusted proxies":       {"10.0.0.1:5", []string{"198.51.100.7, 10.9.9.9"}, proxies, "198.51.100.7"},
		"a forged beginning":        {"10.0.0.1:5", []string{"203.0.113.1, 198.51.100.7, 10.9.9.9"}, proxies, "198.51.100.7"},
		"two headers":               {"10.0.0.1:5", []string{"203.0.113.1", "198.51.100.7"}, proxies, "198.51.100.7"},
		"all are trusted":           {"10.0.0.1:5", []string{"10.1.1.1, 10.2.2.2"}, proxies, "10.1.1.1"},
		"the proxy says nothing":    {"10.0.0.1:5", nil, proxies, "10.0.0.1"},
		"the proxy says nonsense":   {"10.0.0.1:5", []string{"unknown"}, proxies, "10.0.0.1"},
		"nonsense behind good":      {"10.0.0.1:5", []string{"198.51.100.7, _hidden, 10.2.2.2"}, proxies, "10.2.2.2"},
		"a mapped address":          {"[::ffff:10.0.0.1]:5", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		"a connection with no port": {"@", nil, proxies, "@"},
	} {
		r := &http.Request{RemoteAddr: tt.addr, Header: http.Header{}}
		r.Header["X-Forwarded-For"] = tt.forwarded
		if got, _ := remote(r, tt.trusted); got != tt.want {
			t.Errorf("%s: remote(%s, %q) = %s, want %s", name, tt.addr, tt.forwarded, got, tt.want)
		}
	}
}

// A request id is taken from a trusted proxy, if it is plain. It names the request in the reply and in
// the log, and never a call: two requests may have the same.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	trust := func(networks ...string) {
		s := *w.api.settings.Load()
		s.TrustedProxies = nil
		for _, n := range networks {
			s.TrustedProxies = append(s.TrustedProxies, netip.MustParsePrefix(n))
		}
		w.api.Apply(s)
	}
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	tests := []struct {
		name    string
		trusted []string
		headers []string
		want    string // empty: an id of our own
	}{
		{"nobody is trusted", nil, []string{"X-Request-Id: from-outside"}, ""},
		{"somebody else is trusted", []string{"10.0.0.0/8"}, []string{"X-Request-Id: from-outside"}, ""},
		{"the proxy is trusted", []string{"127.0.0.0/8"}, []string{"X-Request-Id: Root=1-67891233-abc/def+1:2@x_y.z"}, "Root=1-67891233-abc/def+1:2@x_y.z"},
		{"the longest", []string{"127.0.0.0/8"}, []string{"X-Request-Id: " + strings.Repeat("a", 128)}, strings.Repeat("a", 128)},
		{"too long", []string{"127.0.0.0/8"}, []string{"X-Request-Id: " + strings.Repeat("a", 129)}, ""},
		{"quotes", []string{"127.0.0.0/8"}, []string{`X-Request-Id: a"b`}, ""},
		{"spaces", []string{"127.0.0.0/8"}, []string{"X-Request-Id: a b"}, ""},
		{"other letters", []string{"127.0.0.0/8"}, []string{"X-Request-Id: ä"}, ""},
		{"empty", []string{"127.0.0.0/8"}, []string{"X-Request-Id:"}, ""},
		{"none", []string{"127.0.0.0/8"}, nil, ""},
	}
	ids := make([]string, len(tests))
	for i, tt := range tests {
		trust(tt.trusted...)
		headers := append(tt.headers, "Traceparent: 00-"+trace+"-00f067aa0ba902b7-01")
		ids[i] = w.send(t, "GET", "/v1/models", w.good, headers...).header.Get("X-Request-Id")
	}
	untraced := w.send(t, "GET", "/v1/models", w.good, "Traceparent: 00-nonsense-01").header.Get("X-Request-Id")
	events := map[any]map[string]any{}
	for _, e := range w.logged(t, "request") {
		events[e["request_id"]] = e
	}
	for i, tt := range tests {
		got, event := ids[i], events[ids[i]]
		call, _ := event["call_id"].(string)
		if event == nil || event["trace_id"] != trace {
			t.Errorf("%s: the event of %q = %v, want one with the trace %s", tt.name, got, event, trace)
		}
		if tt.want == "" && (len(got) != 32 || call != "") {
			t.Errorf("%s: the request id = %q, call_id %q, want one of our own", tt.name, got, call)
		}
		if tt.want != "" && (got != tt.want || len(call) != 32) {
			t.Errorf("%s: the request id = %q, call_id %q, want %q and an id of our own", tt.name, got, call, tt.want)
		}
	}
	if e := events[untraced]; e == nil || e["trace_id"] != nil {
		t.Errorf("the event = %v, want no trace", e)
	}
}

// A request leaves one event, and nothing of it is a secret.
func TestOneEventPerRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(a *API) {
		s := *a.settings.Load()
		s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		a.Apply(s)
	})
	const canary = "service-canaryCanaryCanaryCanaryCanaryCanary1234"
	var ids []string
	for _, r := range []reply{
		w.send(t, "GET", "/v1/models?format=verbose&api_key="+canary, w.good, "X-Forwarded-For: 198.51.100.7", "User-Agent: "+canary, "Cookie: k="+canary),
		w.send(t, "GET", "/v1/models", canary),
		w.send(t, "GET", "/v1/models", w.good, "Authorization: Bearer "+canary),
		w.send(t, "GET", "/v1/models", w.suspended),
		w.send(t, "POST", "/v1/nothing?key="+canary, w.good),
		w.send(t, "OPTIONS", "/v1/models", "", "Origin: https://a.example", "Access-Control-Request-Method: GET"),
		w.send(t, "GET", "/healthz", ""),
	} {
		ids = append(ids, r.header.Get("X-Request-Id"))
	}
	events := w.logged(t, "request")
	var got []string
	for i, e := range events {
		got = append(got, fmt.Sprintf("%v %v %v %v %v", e["method"], e["path"], e["status"], e["fault"], e["remote"]))
		if i < len(ids) && e["request_id"] != ids[i] {
			t.Errorf("event %d has the id %v, want %s as in the reply", i, e["request_id"], ids[i])
		}
	}
	want := []string{
		"GET /v1/models 200 <nil> 198.51.100.7",
		"GET /v1/models 401 authentication_error 127.0.0.1",
		"GET /v1/models 401 authentication_error 127.0.0.1",
		"GET /v1/models 423 account_suspended 127.0.0.1",
		"POST /v1/nothing 404 not_found_error 127.0.0.1",
		"OPTIONS /v1/models 204 <nil> 127.0.0.1",
		// The probe is logged at debug only.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events: -want +got\n%s", diff)
	}
	first := events[0]
	if !strings.HasPrefix(fmt.Sprint(first["account"]), "acct_") || !strings.HasPrefix(fmt.Sprint(first["key"]), "key_") || first["bytes"] == 0.0 {
		t.Errorf("the first event = %v, want account, key and bytes", first)
	}
	if events[4]["account"] == nil || events[1]["account"] != nil {
		t.Errorf("events 4 and 1 = %v, %v, want the account where it is known", events[4], events[1])
	}
	for _, secret := range []string{canary, "canaryCanary", w.good, w.suspended, w.good[8:30]} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log holds the secret %q:\n%s", secret, w.log)
		}
	}
}
