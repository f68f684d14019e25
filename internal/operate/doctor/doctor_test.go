package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/upstream/catalog"
)

// A server that takes long to say how it is, because its database does, may serve calls all the same: nobody is told to
// restart it, and its own address is not in use by another.
func TestServerThatIsSlow(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	socket, err := admin.Listen(data)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		cancel()                           // the doctor has no more patience
		<-r.Context().Done()
	}))
	s.Listener.Close()
	s.Listener = socket
	s.Start()
	t.Cleanup(s.Close)
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })

	for _, f := range Examine(ctx, &Site{
		Data: data, Listen: api.Addr().String(), Origin: "http://" + api.Addr().String(),
		Models:   func() (Models, error) { return Models{Sandbox: 6}, nil },
		Database: Database{SQLite: true, File: "db"},
	}) {
		if f.Subject == "server" && (f.State != StateWarning || strings.Contains(f.Advice, "restart")) || f.Subject == "address" && f.State != StateOK {
			t.Errorf("Examine of a server that is slow = %+v, want a warning about the server, and nothing about its address", f)
		}
	}
}

// Configured models that end soon are a warning with the vendor's advice, those that have ended a problem.
func TestEndings(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, d) }
	c, err := catalog.New([]catalog.Model{
		{ID: "far", Plan: account.Free, Origin: catalog.Configured, Shutdown: day(62)},
		{ID: "near", Plan: account.Free, Origin: catalog.Configured, Shutdown: day(59), Successor: "newer"},
		{ID: "over", Plan: account.Free, Origin: catalog.Configured, Shutdown: day(-1)},
		{ID: "found", Plan: account.Free, Origin: catalog.Environment, Shutdown: day(1)},
		{ID: "stays", Plan: account.Free, Origin: catalog.Configured},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{counted: CountModels(c)}
	d.endings()
	want := []Finding{
		{Subject: "models", State: StateProblem, Message: "the vendor has ended over on " + day(-1).Format(time.DateOnly), Advice: "Configure another model in its place, or give it fallbacks."},
		{Subject: "models", State: StateWarning, Message: "the vendor ends near on " + day(59).Format(time.DateOnly), Advice: "The vendor advises newer. Configure it in its place, or as a fallback."},
	}
	if !slices.Equal(d.findings, want) {
		t.Errorf("endings = %+v, want %+v", d.findings, want)
	}
}
