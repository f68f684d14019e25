package webui_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// failing is a body whose reading ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Forms are read within their bounds before a handler sees them.
func TestForms(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	fill := func(n int) string { return "name=" + strings.Repeat("x", n-len("name=")) }
	for name, tt := range map[string]struct {
		method, target, kind string
		body                 io.Reader
		length               int64 // announced; 0: that of the body
		status               int   // 0: the handler is reached
		value                string
	}{
		"a form":           {method: "POST", kind: form, body: strings.NewReader("name=Ann+B&more=1"), value: "Ann B"},
		"with a charset":   {method: "POST", kind: form + "; charset=UTF-8", body: strings.NewReader("name=Ann"), value: "Ann"},
		"a query":          {method: "GET", target: "?name=Ann", value: "Ann"},
		"both":             {method: "POST", target: "?name=no", kind: form, body: strings.NewReader("name=yes"), value: "yes"},
		"nothing":          {method: "POST"},
		"a body with GET":  {method: "GET", target: "?name=Ann", kind: form, body: strings.NewReader(fill(1 << 20)), value: "Ann"},
		"the most":         {method: "POST", kind: form, body: strings.NewReader(fill(64 << 10)), value: strings.Repeat("x", 64<<10-5)},
		"a byte more":      {method: "POST", kind: form, body: strings.NewReader(fill(64<<10 + 1)), status: 413},
		"more, chunked":    {method: "POST", kind: form, body: strings.NewReader(fill(64<<10 + 1)), length: -1, status: 413},
		"announced alone":  {method: "POST", kind: form, body: failing{io.ErrUnexpectedEOF}, length: 30 << 20, status: 413},
		"many fields":      {method: "POST", kind: form, body: strings.NewReader(strings.Repeat("a&", 200)), status: 400},
		"many in a query":  {method: "GET", target: "?" + strings.Repeat("a&", 200), status: 400},
		"malformed":        {method: "POST", kind: form, body: strings.NewReader("name=%zz"), status: 400},
		"several parts":    {method: "POST", kind: "multipart/form-data; boundary=x", body: strings.NewReader("--x--"), status: 400},
		"JSON":             {method: "POST", kind: "application/json", body: strings.NewReader("{}"), status: 400},
		"of no kind":       {method: "POST", body: strings.NewReader("name=Ann"), status: 400},
		"cut":              {method: "POST", kind: form, body: failing{io.ErrUnexpectedEOF}, length: 10, status: 400},
		"too slow":         {method: "POST", kind: form, body: failing{fault.New(fault.Timeout, "slow")}, length: 10, status: 408},
		"too many at once": {method: "POST", kind: form, body: failing{fault.New(fault.Unavailable, "busy")}, length: -1, status: 503},
	} {
		reached := false
		h := newUI("https://x.example").Handle(func(_ http.ResponseWriter, r *http.Request) error {
			reached = true
			if got := r.FormValue("name"); got != tt.value {
				t.Errorf("%s: the field = %.20q, want %.20q", name, got, tt.value)
			}
			return nil
		})
		r := httptest.NewRequest(tt.method, "https://x.example/signin"+tt.target, tt.body)
		r.Header.Set("Content-Type", tt.kind)
		if tt.length != 0 {
			r.ContentLength = tt.length
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if tt.status == 0 && (!reached || w.Code != 200) || tt.status != 0 && (reached || w.Code != tt.status) {
			t.Errorf("%s: status %d, handler reached: %t; want %d (0: it is reached)", name, w.Code, reached, tt.status)
		}
	}
}

// Every mistake of a form is shown at its field, and one that no field is for above them.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	at := func(param string) error { return fault.New(fault.Invalid, "wrong %s", param).At(param) }
	err := errors.Join(at("name"), errors.Join(at("url"), at("hidden")), at("name"))
	got, status, rest := webui.Refused(err, "name", "url")
	if want := (webui.Problems{"name": "Wrong name.", "url": "Wrong url.", "": "Wrong hidden."}); rest != nil || status != 400 || !maps.Equal(got, want) {
		t.Errorf("Refused = %v, %d, %v, want %v, 400", got, status, rest, want)
	}
	if _, _, rest := webui.Refused(errors.Join(at("name"), errors.New("a bug"))); rest == nil {
		t.Error("a bug beside a mistake is not returned")
	}
}
