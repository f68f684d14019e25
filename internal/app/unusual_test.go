package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testkit/vendortest"
)

// unusual is a request that is legal and rare, and what becomes of it at some upstreams.
type unusual struct {
	name, body string
	header     http.Header
	wants      []string // an upstream of the matrix, a verdict, and its details
}

// readUnusual reads a file of requests. Each is a block of lines: # and its name, the members behind the model, headers, and what
// is wanted of each upstream:
//
//	chat passed "a":1            the upstream gets this, in the caller's words
//	gemini translated "a":1      the upstream gets this, in its own
//	bedrock dropped a, b | "c"   x-sluice-dropped has these names or paths that end with them, and no others; behind the bar, what the upstream gets
//	sandbox refused a            a 400 of ours about this field or what is in it, and nothing is sent
func readUnusual(t *testing.T, file string) (all []unusual) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		name, isName := strings.CutPrefix(line, "# ")
		last := len(all) - 1
		switch {
		case isName:
			all = append(all, unusual{name: name})
		case line == "" || last < 0:
		case strings.HasPrefix(line, `"`):
			all[last].body = line
		case strings.HasPrefix(line, "anthropic-") && strings.Contains(line, ": "):
			key, value, _ := strings.Cut(line, ": ")
			all[last].header = http.Header{http.CanonicalHeaderKey(key): {value}}
		default:
			all[last].wants = append(all[last].wants, line)
		}
	}
	return all
}

// TestUnusual sends what few clients send and all may: 60 requests and more for each door. What becomes of each is what docs/api.md
// and docs/providers/fields.md say.
func TestUnusual(t *testing.T) {
	t.Parallel()
	vendor := &vendortest.Vendor{}
	server := httptest.NewServer(vendor)
	t.Cleanup(server.Close)
	n := startMatrix(t, server.URL)
	seen := map[string]bool{}
	for _, d := range threeDoors {
		all := readUnusual(t, "testdata/unusual/"+d.name+".txt")
		if len(all) < 60 {
			t.Errorf("%s has %d requests, want 60 at least", d.name, len(all))
		}
		for _, u := range all {
			for _, want := range u.wants {
				column, want, _ := strings.Cut(want, " ")
				key := d.name + "/" + column + "/" + u.name
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
				if wrong := u.try(n, vendor, d.name, column, want); wrong != "" {
					t.Errorf("%s %s: %s", key, want, wrong)
				}
			}
		}
	}
}

// try sends the request to one upstream, and returns what is wrong with what came of it.
func (u *unusual) try(n *node, vendor *vendortest.Vendor, door, column, want string) string {
	model := "m/" + column
	if column == "sandbox" {
		model = "sandbox/reasoner"
	}
	vendor.Take()
	s := n.post(door, `{"model":"`+model+`",`+u.body+`}`, u.header)
	s.read(door, false)
	heard, refused := "", ""
	for _, h := range vendor.Take() {
		heard, refused = h.Body, h.Refused
	}
	verdict, detail, _ := strings.Cut(want, " ")
	got := fmt.Sprintf("%d, dropped %q; the upstream got %s, and said %q; %.400s", s.status, s.dropped, heard, refused, s.raw)
	var ok bool
	switch verdict {
	case "passed", "translated":
		ok = s.status == 200 && s.dropped == "" && strings.Contains(heard, detail)
	case "dropped":
		names, sent, _ := strings.Cut(detail, " | ")
		ok = s.status == 200 && sameNames(s.dropped, names) && strings.Contains(heard, sent)
	case "refused":
		at := str(s.fault["param"])
		if door == "messages" {
			at, _, _ = strings.Cut(str(s.fault["message"]), ":")
		}
		ok = s.status == 400 && heard == "" && (at == detail || strings.HasPrefix(at, detail+"."))
	default:
		return "there is no such verdict"
	}
	if ok {
		return ""
	}
	return got
}

// sameNames reports whether a list has the wanted names, as they are or at the end of a path.
func sameNames(got, want string) bool {
	all, wants := strings.Split(got, ", "), strings.Split(want, ", ")
	for _, w := range wants {
		if !slices.ContainsFunc(all, func(g string) bool { return g == w || strings.HasSuffix(g, "."+w) }) {
			return false
		}
	}
	return len(all) == len(wants)
}
