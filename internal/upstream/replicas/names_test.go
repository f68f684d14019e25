package replicas

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/testkit/dnstest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, name, wrong string }{
		{"http://10.0.0.1:8000/v1", "10.0.0.1:8000", ""},
		{"https://one.example.com/v1/", "one.example.com:443", ""},
		{"http://[fd00::1]:8000/v1", "[fd00::1]:8000", ""},
		{"dns+http://vllm.default.svc:8000/v1", "vllm.default.svc:8000", ""},
		{"dns+https://vllm.example.com/v1", "vllm.example.com:443", ""},
		{"dnssrv+http://_http._tcp.vllm.default.svc/v1", "_http._tcp.vllm.default.svc:80", ""},
		{"dnssrv+http://_http._tcp.vllm.default.svc:80/v1", "", "must not have a port"},
		{"http://user:secret@10.0.0.1:8000/v1", "", "user or a password"},
		{"http://token@10.0.0.1:8000/v1", "", "user or a password"},
		{"http://10.0.0.1:8000/v1?key=secret", "", "must be an address"},
		{"http://10.0.0.1:8000/v1#x", "", "must be an address"},
		{"dns+vllm.default.svc:8000", "", "must be an address"},
		{"vllm.default.svc:8000", "", "must be an address"},
		{"file:///etc/passwd", "", "must be an address"},
		{"http://:8000/v1", "", "must be an address"},
		{"http://10.0.0.1:port/v1", "", "must be an address"},
		{"", "", "must be an address"},
	} {
		s, err := Parse(tt.text)
		switch {
		case tt.wrong != "":
			if err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Parse(%q) = %v, want an error with %q", tt.text, err, tt.wrong)
			}
		case err != nil || s.Place().Name != tt.name || s.String() != strings.TrimRight(tt.text, "/"):
			t.Errorf("Parse(%q) = %q at %q, %v, want %q", tt.text, s, s.Place().Name, err, tt.name)
		}
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func sourcesOf(t *testing.T, texts ...string) (list []Source) {
	t.Helper()
	for _, text := range texts {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// at returns where places are: the base URL, and the address if it is another.
func at(places []Place) (list []string) {
	for _, p := range places {
		list = append(list, strings.TrimSpace(p.Base+" "+p.Address))
	}
	return list
}

func TestNames(t *testing.T) {
	t.Parallel()
	dns, log := dnstest.New(t), &lines{}
	n := NewNames(dns.Resolver(), slog.New(slog.NewTextHandler(log, nil)))
	list := sourcesOf(t, "http://10.0.0.9:1/v1", "dns+https://vllm.test:8000/v1", "dnssrv+http://_http._tcp.vllm.test/v1")
	look := func(changed bool, want ...string) {
		t.Helper()
		if got := n.Look(t.Context(), list); got != changed {
			t.Errorf("Look = %t, want %t", got, changed)
		}
		if got := at(n.Places(list)); !slices.Equal(got, want) {
			t.Errorf("Places = %q, want %q", got, want)
		}
	}
	// Names that cannot be looked up stand for themselves.
	look(false, "http://10.0.0.9:1/v1", "https://vllm.test:8000/v1", "http://_http._tcp.vllm.test/v1")
	dns.Set("vllm.test", "10.0.0.2", "10.0.0.1", "fd00::1")
	dns.SetRecords("_http._tcp.vllm.test", net.SRV{Target: "b.test.", Port: 8001}, net.SRV{Target: "a.test.", Port: 8002})
	one := "https://vllm.test:8000/v1 10.0.0.1:8000"
	two := "https://vllm.test:8000/v1 10.0.0.2:8000"
	three := "https://vllm.test:8000/v1 10.0.0.3:8000"
	a, b := "http://a.test:8002/v1", "http://b.test:8001/v1"
	look(true, "http://10.0.0.9:1/v1", one, two, a, b)
	look(false, "http://10.0.0.9:1/v1", one, two, a, b)
	dns.Set("vllm.test", "10.0.0.3", "10.0.0.2")
	dns.SetRecords("_http._tcp.vllm.test", net.SRV{Target: "a.test.", Port: 8002})
	look(true, "http://10.0.0.9:1/v1", two, three, a)
	// A failing DNS, and one that knows no address, take nothing away. The log says so once.
	dns.Break(true)
	before := log.count("cannot be looked up")
	look(false, "http://10.0.0.9:1/v1", two, three, a)
	look(false, "http://10.0.0.9:1/v1", two, three, a)
	if got := log.count("cannot be looked up") - before; got != 2 { // one for each name
		t.Errorf("the log has %d lines about the DNS, want 2:\n%s", got, log.text.String())
	}
	dns.Break(false)
	dns.Set("vllm.test")
	look(false, "http://10.0.0.9:1/v1", two, three, a)
	dns.Set("vllm.test", "fd00::2", "0.0.0.0")
	look(true, "http://10.0.0.9:1/v1", "https://vllm.test:8000/v1 [fd00::2]:8000", a)
	// What a source no longer names is forgotten.
	n.forget(list[:1])
	if len(n.known) != 0 {
		t.Errorf("%d names are known after they are gone", len(n.known))
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	dns, log := dnstest.New(t), &lines{}
	n := NewNames(dns.Resolver(), slog.New(slog.NewTextHandler(log, nil)))
	list := sourcesOf(t, "dns+http://vllm.test:8000/v1", "http://10.1.0.0:8000/v1")
	var many []string
	for i := range Most + 5 {
		many = append(many, fmt.Sprintf("10.0.0.%d", i))
	}
	dns.Set("vllm.test", many...)
	n.Look(t.Context(), list)
	n.Look(t.Context(), list)
	if got := n.Places(list); len(got) != Most || got[0].Name != "10.0.0.0:8000" {
		t.Errorf("%d places, the first is %v, want %d", len(got), got[0], Most)
	}
	if got := log.count("too many replicas"); got != 1 {
		t.Errorf("the log says %d times that there are too many, want once", got)
	}
	// An address that is both found and listed is one replica.
	twice := sourcesOf(t, "http://10.0.0.1:8000/v1", "dns+http://pair.test:8000/v1")
	dns.Set("pair.test", "10.0.0.1", "10.0.0.2")
	n.Look(t.Context(), twice)
	if got := at(n.Places(twice)); !slices.Equal(got, []string{"http://10.0.0.1:8000/v1", "http://pair.test:8000/v1 10.0.0.2:8000"}) {
		t.Errorf("Places = %q, want each host and port once", got)
	}
}

// Learn asks only for what is not known yet.
func TestLearn(t *testing.T) {
	t.Parallel()
	dns := dnstest.New(t)
	n := NewNames(dns.Resolver(), slog.New(slog.DiscardHandler))
	list := sourcesOf(t, "dns+http://vllm.test:8000/v1")
	dns.Set("vllm.test", "10.0.0.1")
	n.Learn(t.Context(), list)
	asked := dns.Asked()
	n.Learn(t.Context(), list)
	if got := dns.Asked(); asked == 0 || got != asked {
		t.Errorf("Learn asked %d times, then %d times, want some and none", asked, got-asked)
	}
}
