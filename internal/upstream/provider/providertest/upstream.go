package providertest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
)

// Dialect writes scripts and reads requests in one wire format over HTTP. It must not use the adapter's own code,
// or the suite would compare the adapter with itself.
type Dialect struct {
	// Stream returns the events as pieces of a body. If there is a finish, the mark of the end follows.
	Stream func(events []provider.Event) []string
	// Garbage is a piece of a stream that cannot be read.
	Garbage string
	// Whole returns the events as one body.
	Whole func(events []provider.Event) string
	// Refuse returns the body of an error with the message.
	Refuse func(message string) string
	// Read reads a request. It panics if no upstream would understand it.
	Read func(r *http.Request, body []byte) Asked
	// TLS makes the upstream speak it, with a certificate that nobody knows.
	TLS bool
}

// Open returns an adapter for the upstream at baseURL, and a function that ends it. The adapter uses Key as its
// credential, and as its silence the shortest that the pulse can measure.
type Open func(t *testing.T, baseURL string, p *pulse.Pulse) (a provider.Adapter, end func())

// HTTP returns the Start of a harness whose adapter calls an upstream over HTTP.
func HTTP(d Dialect, open Open) func(*testing.T, *Script) *Play {
	return func(t *testing.T, s *Script) *Play {
		t.Helper()
		u := &upstream{dialect: d, script: s, asked: make(chan Asked, 1), gone: make(chan struct{})}
		server := httptest.NewUnstartedServer(u)
		if server.Config.ErrorLog = log.New(io.Discard, "", 0); d.TLS { // connections that are cut are no news
			server.StartTLS()
		} else {
			server.Start()
		}
		p := pulse.New()
		ctx, cancel := context.WithCancel(context.Background())
		var beating sync.WaitGroup
		beating.Go(func() { p.Run(ctx) })
		a, end := open(t, server.URL, p)
		return &Play{
			Adapter: a, Upstream: Model, Gone: u.gone,
			Asked: func() Asked { return <-u.asked },
			Close: func() {
				end()
				server.Close()
				cancel()
				beating.Wait()
			},
		}
	}
}

// upstream is a server that plays one script to every request, in the words of a dialect.
type upstream struct {
	dialect Dialect
	script  *Script
	asked   chan Asked    // has room for the first request
	gone    chan struct{} // see Play.Gone
	once    sync.Once     // closes gone
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	asked := u.dialect.Read(r, body)
	select {
	case u.asked <- asked:
	default: // only the first is checked
	}
	switch {
	case u.script.Then == Wait:
		u.wait(r)
	case u.script.Refusal != nil:
		u.refuse(w, u.script.Refusal)
	case asked.Stream:
		u.stream(w, r)
	default:
		u.whole(w, r)
	}
}

// refuse sends an error.
func (u *upstream) refuse(w http.ResponseWriter, f *Refusal) {
	body := f.Body
	if body == "" {
		body = u.dialect.Refuse(f.Message)
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, body)
}

// stream sends the events one by one. Each is flushed, so that the adapter sees them come apart.
func (u *upstream) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	control := http.NewResponseController(w)
	_ = control.Flush() // an error means that the caller left, which the request's context tells as well
	for _, piece := range u.dialect.Stream(u.script.Events) {
		_, _ = io.WriteString(w, piece)
		_ = control.Flush()
	}
	u.then(w, r)
}

// whole sends the events as one body. If something is to go wrong, only half of the body comes before it.
func (u *upstream) whole(w http.ResponseWriter, r *http.Request) {
	body := u.dialect.Whole(u.script.Events)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	switch u.script.Then {
	case 0:
	case Garbage:
		body = "?" + body[1:]
	default:
		body = body[:len(body)/2]
	}
	_, _ = io.WriteString(w, body)
	_ = http.NewResponseController(w).Flush()
	if u.script.Then != Garbage {
		u.then(w, r)
	}
}

// then plays what happens after the events.
func (u *upstream) then(w http.ResponseWriter, r *http.Request) {
	switch u.script.Then {
	case Cut:
		panic(http.ErrAbortHandler)
	case Reset:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // makes Close send a reset
		conn.Close()
	case Garbage:
		_, _ = io.WriteString(w, u.dialect.Garbage)
	case Stall:
		u.wait(r)
	}
}

// wait stays silent until the caller has left.
func (u *upstream) wait(r *http.Request) {
	<-r.Context().Done()
	u.once.Do(func() { close(u.gone) })
}
