package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
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
		{Subject: "models", State: StateProblem, Message: "the vendor retired over on " + day(-1).Format(time.DateOnly), Advice: "Configure another model in its place, or give it fallbacks."},
		{Subject: "models", State: StateWarning, Message: "the vendor retires near on " + day(59).Format(time.DateOnly), Advice: "The vendor recommends newer. Configure it in its place, or as a fallback."},
	}
	if !slices.Equal(d.findings, want) {
		t.Errorf("endings = %+v, want %+v", d.findings, want)
	}
}

// A model without a price at one of its places is named; routers and built-in models are not.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	known := price.Flat(1, 2)
	model := func(id string, places ...*price.Series) catalog.Model {
		m := catalog.Model{ID: id, Plan: account.Free, ContextLength: 1000, MaxOutput: 100}
		for i, p := range places {
			m.Targets = append(m.Targets, catalog.Target{Provider: fmt.Sprint("p", i), Upstream: "u", Weight: 1, Price: p})
		}
		return m
	}
	built := model("built", nil)
	built.Sandbox = true
	all := []catalog.Model{catalog.Router("auto"), built, model("priced", known, known), model("half", known, nil), model("z", nil)}
	for i := range 5 {
		all = append(all, model(fmt.Sprint("m", i), nil))
	}
	c, err := catalog.New(all)
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{counted: CountModels(c)}
	d.unpriced()
	if len(d.findings) != 1 || d.findings[0].State != StateWarning || d.findings[0].Message != "models without a price: half, m0, m1, m2, m3 and 2 more" {
		t.Errorf("prices = %+v, want one warning", d.findings)
	}
	d = &doctor{}
	if d.unpriced(); len(d.findings) != 0 {
		t.Errorf("prices = %+v, want nothing", d.findings)
	}
}

// Prices of the operator that end, and a list that nobody has reviewed for long, are warnings.
func TestPrices(t *testing.T) {
	t.Parallel()
	e, err := price.Sealed(price.Entry{Model: "lab/a", Rates: price.Of(1, 1), Until: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), Origin: price.FromPrices})
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{counted: Models{Aged: []price.Aged{{Entry: e}}, List: "2026-02-01"}}
	d.prices(time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC))
	var got []string
	for _, f := range d.findings {
		got = append(got, f.State+" "+f.Subject+" "+f.Message)
	}
	want := []string{
		"warning prices lab/a: the prices in prices ended on 2026-06-01, and none of yours follow; then the vendor's list counts, if it has the model",
		"warning prices the list of prices that comes with this version was reviewed on 2026-02-01; update, or import a newer list",
	}
	if !slices.Equal(got, want) {
		t.Errorf("prices = %q, want %q", got, want)
	}
}
