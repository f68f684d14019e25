package metrics

import (
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parse reads a page as Prometheus would.
func parse(t *testing.T, text string) map[string]map[string]float64 {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("the page is not valid: %v\n%s", err, text)
	}
	all := map[string]map[string]float64{}
	for name, f := range families {
		all[name] = map[string]float64{}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
			all[name][strings.Join(labels, ",")] = v
		}
	}
	return all
}

func TestPage(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	c := r.Counters("c_total", "Counts.\nAnd a \\.", "b", "a")
	c.With("1", "x\"y\\z\n").Inc()
	c.With("1", "x\"y\\z\n").Add(.5)
	c.With("2", "\xff").Inc()
	r.Counters("empty_total", "Has no series.", "a")
	r.Gauge("level", "Goes up and down.").Set(-3.25)
	h := r.Histograms("h_seconds", "Is distributed.", []float64{.5, 1, 2.5}, "who")
	for _, v := range []float64{.25, .5, .75, 2.5, 2.75, 1000} {
		h.With("me").Observe(v)
	}
	r.Func(Gauge, "now", "Is read.", []string{"of"}, func(emit func(float64, ...string)) {
		emit(math.NaN(), "z")
		emit(math.Inf(1), "y")
		emit(1e20, "x")
	})
	const want = `# HELP c_total Counts.\nAnd a \\.
# TYPE c_total counter
c_total{a="x\"y\\z\n",b="1"} 1.5
c_total{a="` + "\uFFFD" + `",b="2"} 1
# HELP h_seconds Is distributed.
# TYPE h_seconds histogram
h_seconds_bucket{who="me",le="0.5"} 2
h_seconds_bucket{who="me",le="1"} 3
h_seconds_bucket{who="me",le="2.5"} 4
h_seconds_bucket{who="me",le="+Inf"} 6
h_seconds_sum{who="me"} 1006.75
h_seconds_count{who="me"} 6
# HELP level Goes up and down.
# TYPE level gauge
level -3.25
# HELP now Is read.
# TYPE now gauge
now{of="x"} 1e+20
now{of="y"} +Inf
now{of="z"} NaN
`
	got := string(r.Append(nil))
	if got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if all := parse(t, got); all["c_total"]["a=x\"y\\z\n,b=1"] != 1.5 || all["h_seconds"]["who=me"] != 6 {
		t.Errorf("Prometheus reads %v", all)
	}
}

// Whatever is counted at the same time is counted once, and every page is consistent.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 2000
	r := NewRegistry()
	c, l, h := r.Counters("c_total", "C.", "a"), r.Gauge("l", "L."), r.Histograms("h", "H.", []float64{1, 2, 3})
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				c.With(string(rune('a' + i%3))).Inc()
				l.Add(1)
				h.With().Observe(float64(w % 5))
				if i%500 == 0 {
					parse(t, string(r.Append(nil))) // the parser refuses buckets that do not add up
				}
			}
		})
	}
	all.Wait()
	got := parse(t, string(r.Append(nil)))
	sum := 0.0
	for _, v := range got["c_total"] {
		sum += v
	}
	if sum != workers*each || got["l"][""] != workers*each || got["h"][""] != workers*each {
		t.Errorf("counted %v, %v and %v, want %d each", sum, got["l"][""], got["h"][""], workers*each)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	c := r.Counters("twice_total", "T.", "a")
	for name, do := range map[string]func(){
		"the same name":      func() { r.Gauge("twice_total", "T.") },
		"no name":            func() { r.Gauge("", "T.") },
		"a name with a dash": func() { r.Gauge("a-b", "T.") },
		"a digit in front":   func() { r.Counters("a", "T.", "1a") },
		"values missing":     func() { c.With() },
		"unordered buckets":  func() { r.Histograms("b", "T.", []float64{2, 1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			do()
		}()
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	r.Runtime()
	r.Process()
	for coding, zipped := range map[string]bool{"": false, "gzip": true, "br;q=1, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000": false, "identity": false} {
		req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		if coding != "" {
			req.Header.Set("Accept-Encoding", coding)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("Accept-Encoding %q: compressed = %v, want %v", coding, got, zipped)
		} else if zipped {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, string(text))
		for _, name := range []string{"go_goroutines", "go_threads", "go_memstats_sys_bytes", "go_memstats_heap_inuse_bytes", "go_gc_gogc_percent", "process_start_time_seconds"} {
			if all[name][""] <= 0 {
				t.Errorf("%s = %v, want more than 0", name, all[name])
			}
		}
		if ct := w.Header().Get("Content-Type"); ct != contentType {
			t.Errorf("Content-Type = %q", ct)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	d := NewRegistry().Histograms("h", "H.", []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}).With()
	b.ReportAllocs()
	for b.Loop() {
		d.Observe(.3)
	}
}
