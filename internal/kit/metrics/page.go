package metrics

import (
	"compress/gzip"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// contentType is that of version 0.0.4 of the format, which every Prometheus reads.
const contentType = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

// ServeHTTP answers with all families.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	text := r.Append(nil)
	if !acceptsGzip(req) {
		h.Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the scraper has gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(w)
	_, _ = z.Write(text)
	_ = z.Close()
}

// zippers are kept because a new one allocates almost a megabyte.
var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return z
}}

// acceptsGzip reports whether a scraper takes a compressed reply.
func acceptsGzip(req *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(req.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") && (weight == "" || strings.Trim(weight, "q=0.") != "") {
			return true
		}
	}
	return false
}

// Append appends all families to b, ordered by name.
func (r *Registry) Append(b []byte) []byte {
	r.mu.Lock()
	all := maps.Clone(r.families)
	r.mu.Unlock()
	p := &page{b}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		start := len(p.text)
		p.text = append(p.text, "# HELP "+name+" "+escapeHelp(f.help)+"\n# TYPE "+name+" "+string(f.kind)+"\n"...)
		head := len(p.text)
		if f.write(p); len(p.text) == head {
			p.text = p.text[:start] // a family without series has no head either
		}
	}
	return p.text
}

// page is the text that is being written.
type page struct{ text []byte }

// line appends a series: its name with a suffix, its labels with one more, and its value.
func (p *page) line(name, suffix, pairs, more string, v float64) {
	b := append(append(p.text, name...), suffix...)
	if pairs != "" || more != "" {
		b = append(append(b, '{'), pairs...)
		if pairs != "" && more != "" {
			b = append(b, ',')
		}
		b = append(append(b, more...), '}')
	}
	b = append(append(b, ' '), number(v)...)
	p.text = append(b, '\n')
}

// number returns a value as the format has it.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64) // NaN and -Inf, too
}

// escapeValue and escapeHelp return text as it stands in a value of a label and after # HELP.
func escapeValue(s string) string { return valueEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }
func escapeHelp(s string) string  { return helpEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }

var (
	valueEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)
