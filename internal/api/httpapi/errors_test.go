package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

const (
	saysNoKey       = "No API key was given. Send it as the header \"Authorization: Bearer service-…\"."
	saysForm        = "The Authorization header must have the form \"Bearer service-…\"."
	saysPrefix      = "This is not a key of this service: keys begin with \"service-\"."
	saysMistyped    = "This API key is mistyped or incomplete. Copy it again, whole."
	saysUnknown     = "This API key is not known. It may have been deleted or regenerated; use one that your account still has."
	saysDeactivated = "This API key has been deactivated by abuse control. Contact support to have it restored."
	saysSuspended   = "This account is suspended. Contact support."
	saysOurFault    = "Something went wrong on our side. Try again; if it persists, report the request id."
)

func nothing(path string) string {
	return object(404, "not_found_error", "There is nothing at "+path+". The API begins at /v1; its reference is at /docs.")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	unknown := unknownKey(t)
	noKey := object(401, "authentication_error", saysNoKey)
	tests := []struct {
		name           string
		method, target string
		key            string
		header         []string
		status         int
		object         string
		want           map[string]string // further headers
	}{
		{"no key", "GET", "/v1/models", "", nil, 401, noKey, map[string]string{"WWW-Authenticate": "Bearer"}},
		{"basic", "GET", "/v1/models", "", []string{"Authorization: Basic dTpw"}, 401, object(401, "authentication_error", saysForm), map[string]string{"WWW-Authenticate": "Bearer"}},
		{"two headers", "GET", "/v1/models", w.good, []string{"Authorization: Bearer " + w.good}, 401, object(401, "authentication_error", saysForm), nil},
		{"wrong prefix", "GET", "/v1/models", "sk-" + w.good[8:], nil, 401, object(401, "authentication_error", saysPrefix), nil},
		{"one character changed", "GET", "/v1/models", typo(w.good), nil, 401, object(401, "authentication_error", saysMistyped), nil},
		{"unknown key", "GET", "/v1/models", unknown, nil, 401, object(401, "authentication_error", saysUnknown), nil},
		{"deactivated", "GET", "/v1/models", w.deactivated, nil, 401, object(401, "key_deactivated", saysDeactivated), nil},
		{"suspended", "GET", "/v1/models", w.suspended, nil, 423, object(423, "account_suspended", saysSuspended), nil},

		// 401 and 423 come before anything else that is wrong.
		{"no key, unknown path", "GET", "/v1/nothing", "", nil, 401, noKey, nil},
		{"no key, the root of the API", "GET", "/v1", "", nil, 401, noKey, nil},
		{"no key, wrong method", "DELETE", "/v1/models", "", nil, 401, noKey, map[string]string{"Allow": ""}},
		{"no key, unclean path", "GET", "/v1//models", "", nil, 401, noKey, nil},
		{"no key, escaped slash", "GET", "/v1%2Fmodels", "", nil, 401, noKey, nil},
		{"no key, bad parameter", "GET", "/v1/models?format=bogus", "", nil, 401, noKey, nil},
		{"no key, preflight without a method", "OPTIONS", "/v1/models", "", []string{"Origin: https://a.example"}, 401, noKey, nil},
		{"suspended, unknown path", "GET", "/v1/nothing", w.suspended, nil, 423, object(423, "account_suspended", saysSuspended), nil},
		{"suspended, wrong method", "PUT", "/v1/models", w.suspended, nil, 423, object(423, "account_suspended", saysSuspended), map[string]string{"Allow": ""}},

		{"unknown path", "GET", "/v1/nothing", w.good, nil, 404, nothing("/v1/nothing"), nil},
		{"unknown path, any method", "DELETE", "/v1/nothing", w.good, nil, 404, nothing("/v1/nothing"), map[string]string{"Allow": ""}},
		{"the root of the API", "GET", "/v1", w.good, nil, 404, nothing("/v1"), nil},
		{"the root", "GET", "/", "", nil, 404, nothing("/"), nil},
		{"unknown path outside", "POST", "/nothing", "", nil, 404, nothing("/nothing"), nil},
		{"another version", "GET", "/v2/models", "", nil, 404, nothing("/v2/models"), nil},
		{"double slash", "GET", "//v1/models", "", nil, 404, nothing("//v1/models"), nil},
		{"double slash inside", "GET", "/v1//models", w.good, nil, 404, nothing("/v1//models"), nil},
		{"dots out of the API", "GET", "/v1/../healthz", w.good, nil, 404, nothing("/v1/../healthz"), nil},
		{"dots into the API", "GET", "/x/../v1/models", "", nil, 404, nothing("/x/../v1/models"), nil},
		{"escaped dots", "GET", "/v1/models/%2e%2e/models", w.good, nil, 404, nothing("/v1/models/../models"), nil},
		{"trailing slash", "GET", "/v1/models/", w.good, nil, 404, nothing("/v1/models/"), nil},
		{"escaped slash", "GET", "/v1%2Fmodels", w.good, nil, 404, nothing("/v1/models"), nil},
		{"the server itself", "OPTIONS", "*", "", nil, 404, nothing("*"), nil},
		{"a proxy's request", "CONNECT", "example.com:443", "", nil, 404, nothing(""), nil},
		{"long path", "GET", "/" + strings.Repeat("x", 300), "", nil, 404, nothing("/" + strings.Repeat("x", 99) + "…"), nil},
		{"unknown model", "GET", "/v1/models/lab/none", w.good, nil, 404, object(404, "not_found_error", `There is no model "lab/none". GET /v1/models lists those there are.`), nil},
		{
			"unknown model, quotes", "GET", "/v1/models/%22%3Cb%3E", w.good, nil, 404,
			object(404, "not_found_error", `There is no model "\"<b>". GET /v1/models lists those there are.`), nil,
		},

		{"wrong method", "DELETE", "/v1/models", w.good, nil, 405, object(405, "method_not_allowed", "DELETE is not possible on /v1/models; use GET or HEAD."), map[string]string{"Allow": "GET, HEAD"}},
		{"wrong method on a model", "POST", "/v1/models/service/auto", w.good, nil, 405, object(405, "method_not_allowed", "POST is not possible on /v1/models/service/auto; use GET or HEAD."), map[string]string{"Allow": "GET, HEAD"}},
		{"wrong method outside", "POST", "/healthz", "", nil, 405, object(405, "method_not_allowed", "POST is not possible on /healthz; use GET or HEAD."), map[string]string{"Allow": "GET, HEAD"}},
		{"made-up method", "BREW", "/docs", "", nil, 405, object(405, "method_not_allowed", "BREW is not possible on /docs; use GET or HEAD."), map[string]string{"Allow": "GET, HEAD"}},

		{"format", "GET", "/v1/models?format=bogus", w.good, nil, 400, object(400, "invalid_request_error", `format must be "verbose" or absent; got "bogus".`, "format"), nil},
		{"empty format", "GET", "/v1/models?format=", w.good, nil, 400, object(400, "invalid_request_error", `format must be "verbose" or absent; got "".`, "format"), nil},
		{"format in capitals", "GET", "/v1/models?format=VERBOSE", w.good, nil, 400, object(400, "invalid_request_error", `format must be "verbose" or absent; got "VERBOSE".`, "format"), nil},
	}
	ids := map[string]bool{}
	for _, tt := range tests {
		got := w.send(t, tt.method, tt.target, tt.key, tt.header...)
		checkError(t, tt.name, got, tt.status, tt.object)
		for name, want := range tt.want {
			if v := got.header.Get(name); v != want {
				t.Errorf("%s: %s = %q, want %q", tt.name, name, v, want)
			}
		}
		ids[got.header.Get("X-Request-Id")] = true
	}
	if len(ids) != len(tests) {
		t.Errorf("%d requests had %d ids, want one each", len(tests), len(ids))
	}
}

// unknownKey is a well-formed key that nobody has.
func unknownKey(t *testing.T) string {
	t.Helper()
	_, raw, err := account.New(nowhere{}, nil).Create(t.Context(), "t", "b@example.com", account.Free, false)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// typo changes one character of a key.
func typo(key string) string {
	c := byte('a')
	if key[20] == c {
		c = 'b'
	}
	return key[:20] + string(c) + key[21:]
}

// A suspended account is told so on every path of the API, whatever the method.
func TestSuspendedEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	paths := []string{"/v1", "/v1/nothing", "/v1/models/", "/v1/../v1/models", "/v1/video/generations/jobs"}
	for _, rt := range w.api.routes() {
		if strings.HasPrefix(rt.pattern, "/v1") && !strings.HasPrefix(rt.pattern, messagesPath) {
			paths = append(paths, strings.NewReplacer("{id...}", "service/auto").Replace(rt.pattern))
		}
	}
	if len(paths) < 8 {
		t.Fatalf("only %d paths are known", len(paths))
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
			checkError(t, method+" "+path, w.send(t, method, path, w.suspended), 423, object(423, "account_suspended", saysSuspended))
		}
	}
	for _, path := range []string{messagesPath, countTokensPath, messagesPath + "/nothing"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			checkMessagesError(t, method+" "+path, w.send(t, method, path, w.suspended), 423, "permission_error", saysSuspended)
		}
	}
	if got := w.send(t, "GET", "/healthz", w.suspended); got.status != 200 {
		t.Errorf("GET /healthz with a suspended key = %d, want 200: it needs no key", got.status)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for _, tt := range []struct {
		target, key string
		status      int
	}{
		{"/v1/models", w.good, 200},
		{"/v1/models?format=verbose", w.good, 200},
		{"/v1/models/service%2Fauto", w.good, 200},
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/docs", "", 200},
		{"/v1/models", "", 401},
		{"/v1/models", w.suspended, 423},
		{"/v1/nothing", w.good, 404},
		{"/v1/models?format=x", w.good, 400},
	} {
		head, get := w.send(t, "HEAD", tt.target, tt.key), w.send(t, "GET", tt.target, tt.key)
		checkFixed(t, "HEAD "+tt.target, head)
		if head.status != tt.status || head.body != "" || get.status != tt.status || get.body == "" {
			t.Errorf("HEAD %s = %d with %d bytes, GET %d with %d, want %d for both and a body for GET alone",
				tt.target, head.status, len(head.body), get.status, len(get.body), tt.status)
		}
		for _, name := range []string{"Content-Type", "X-Should-Retry", "Www-Authenticate", "Allow"} {
			if a, b := head.header.Get(name), get.header.Get(name); a != b {
				t.Errorf("HEAD %s: %s = %q, want %q as for GET", tt.target, name, a, b)
			}
		}
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(func(*API) handler {
		return func(*exchange, *http.Request) error { panic("canary in the mine") }
	}))
	got := w.send(t, "GET", "/v1/models", w.good)
	checkError(t, "a panic", got, 500, object(500, "server_error", saysOurFault))
	// The server lives on.
	checkError(t, "another", w.send(t, "GET", "/healthz", ""), 500, object(500, "server_error", saysOurFault))

	panics, events := w.logged(t, "panic"), w.logged(t, "request")
	if len(panics) != 2 || len(events) != 2 {
		t.Fatalf("the log has %d panics and %d events, want 2 of each:\n%s", len(panics), len(events), w.log)
	}
	first := panics[0]
	if first["level"] != "ERROR" || first["panic"] != "canary in the mine" || first["request_id"] != got.header.Get("X-Request-Id") ||
		!strings.Contains(first["stack"].(string), "errors_test.go") {
		t.Errorf("the log of the panic = %v, want it with its request and where it happened", first)
	}
	if e := events[0]; e["status"] != 500.0 || e["fault"] != "server_error" || e["error"] != "panic: canary in the mine" || e["level"] != "ERROR" {
		t.Errorf("the event of the panic = %v", e)
	}
}

// What goes wrong once a reply has begun cuts the connection, so that the reply cannot pass for whole.
func TestFailureAfterTheReplyBegan(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("canary") },
		"fault": func() error { return fault.New(fault.Unavailable, "canary") },
		"panic": func() error { panic("canary") },
		"abort": func() error { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, behind(func(*API) handler {
				return func(x *exchange, _ *http.Request) error {
					if _, err := io.WriteString(x, `{"begun":`); err != nil {
						return err
					}
					if err := http.NewResponseController(x).Flush(); err != nil {
						return err
					}
					return fail()
				}
			}))
			conn := w.dial(t)
			write(t, conn, "GET", "/v1/models", w.good)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 200 || string(body) != `{"begun":` || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the reply = %d %q, %v, want what was sent and then a cut", resp.StatusCode, body, err)
			}
			if events := w.logged(t, "request"); len(events) != 1 || events[0]["status"] != 200.0 {
				t.Errorf("events = %v, want one", events)
			}
		})
	}
}

// A handler that fails before its first byte may have set headers of a good reply.
func TestErrorReplacesHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(func(*API) handler {
		return func(x *exchange, _ *http.Request) error {
			x.Header().Set("Content-Type", "text/html")
			x.Header().Set("Content-Length", "4096")
			return fault.New(fault.Conflict, "Busy.")
		}
	}))
	got := w.send(t, "GET", "/", "")
	if want := object(409, "conflict", "Busy."); got.status != 409 || got.body != want || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("the reply = %d %s %s, want 409 application/json %s", got.status, got.header.Get("Content-Type"), got.body, want)
	}
}

func TestRetryHints(t *testing.T) {
	t.Parallel()
	final := fault.New(fault.RateLimited, "m").After(time.Second)
	final.Final = true
	for name, tt := range map[string]struct {
		err                    error
		seconds, millis, retry string
	}{
		"503 without a hint":  {fault.New(fault.Unavailable, "m"), "1", "1000", ""},
		"rounded up":          {fault.New(fault.Unavailable, "m").After(1001 * time.Millisecond), "2", "1001", ""},
		"less than a second":  {fault.New(fault.RateLimited, "m").After(time.Microsecond), "1", "1", ""},
		"a minute at most":    {fault.New(fault.RateLimited, "m").After(time.Hour), "60", "60010", ""},
		"429 without a hint":  {fault.New(fault.RateLimited, "m"), "", "", ""},
		"a call never passes": {final, "", "", "false"},
		"our own fault":       {errors.New("m"), "", "", ""},
		"a lasting mistake":   {fault.New(fault.Invalid, "m").After(time.Second), "", "", "false"},
	} {
		w := newWorld(t, nil, behind(func(*API) handler { return func(*exchange, *http.Request) error { return tt.err } }))
		h := w.send(t, "GET", "/", "").header
		if h.Get("Retry-After") != tt.seconds || h.Get("Retry-After-Ms") != tt.millis || h.Get("X-Should-Retry") != tt.retry {
			t.Errorf("%s: Retry-After %q, retry-after-ms %q, x-should-retry %q, want %q, %q, %q", name,
				h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("X-Should-Retry"), tt.seconds, tt.millis, tt.retry)
		}
	}
}
