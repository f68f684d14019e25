package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
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
