package archtest

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// rows is the order of the packages below internal/: each may import those of lower rows only, and
// none of its own. "x/*" stands for every folder of x, each an adapter: code that knows one vendor or
// one wire format. A folder below a listed package belongs to it and stands in its row; the two may
// import each other. A package may be listed before it exists.
var rows = [][]string{
	// Text itself: bytes and characters, below every word.
	{"jsonscan", "excerpt"},
	// Words: what everybody may know. They know text and nothing else.
	{"fault", "config", "telemetry", "buildinfo", "tokens", "datadir", "sse", "pulse", "seal", "plainhttp", "lazyregexp"},
	// The nouns that requests and storage are made of, and the doors to the outside.
	{"chat", "netguard", "account", "blob", "mail"},
	// Facts: what is on offer, what was used, who is asking, what was said before.
	{"catalog", "usage", "billing", "auth", "signin", "continuation", "idempotency"},
	// What judges a request, and how an upstream is asked; payment adapters know billing, ledgers on other
	// servers know admission. provider/claude is no adapter: it is what several of them know of one family of
	// models.
	{"abuse", "admission", "provider", "provider/claude", "mcpclient", "billing/*", "admission/*"},
	// What works with upstreams, and every wire format; what accounts are told of all that happens to them.
	{"notice", "routing", "relay", "toolloop", "discovery", "provider/*"},
	// The two lines: one chat completion, one video job.
	{"inference", "video", "video/*"},
	// The doors, and the store, which knows all facts and the jobs of the video line.
	{"httpapi", "mcpserver", "webui", "admin", "sqlstore"},
	// The pages, which share webui, and the doctor, which asks a running server.
	{"dashboard", "support", "doctor"},
	// Wires everything.
	{"app"},
}

// belowAppOnly are packages that only app and the command may import, beside all adapters:
// a capability takes its own Options and Store, never the configuration or the database.
var belowAppOnly = []string{"config", "sqlstore"}

// place is where a package stands.
type place struct {
	row     int
	home    string // the listed package that it belongs to
	adapter bool
}

// standing finds the place of a package below internal/, by its path without that prefix.
func standing(name string) (place, bool) {
	for dir := name; dir != "."; dir = path.Dir(dir) {
		for row, names := range rows {
			for _, listed := range names {
				if listed == dir {
					return place{row, dir, false}, true
				}
				if listed == path.Dir(dir)+"/*" && !isListed(dir) {
					return place{row, dir, true}, true
				}
			}
		}
	}
	return place{}, false
}

func isListed(name string) bool {
	for _, names := range rows {
		for _, listed := range names {
			if listed == name {
				return true
			}
		}
	}
	return false
}

// testSupport reports whether a package exists for tests: pgtest, storetest and their like.
func testSupport(name string) bool { return strings.HasSuffix(name, "test") }

// related reports whether one package lies in a folder of the other.
func related(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// checkImports applies the rows to every import of product code. Tests may import what they like.
func checkImports(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		p := t.packages[dir]
		if name, ok := strings.CutPrefix(dir, "internal/"); ok && !testSupport(name) {
			if _, ok := standing(name); !ok {
				problems = append(problems, fmt.Sprintf("package %s has no place: add it to a row in internal/archtest/imports_test.go", dir))
				continue
			}
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, spec := range f.syntax.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					continue // the parser has accepted it, so it is quoted
				}
				if target, ok := strings.CutPrefix(target, "sluice/"); ok {
					if complaint := judge(dir, target); complaint != "" {
						problems = append(problems, fmt.Sprintf("%s imports %s: %s", f.path, target, complaint))
					}
				}
			}
		}
	}
	return problems
}

// judge says what is wrong with an import, or nothing. Both are folders of the module.
func judge(from, to string) string {
	switch {
	case related(from, to):
		return ""
	case strings.HasPrefix(from, "tools/"), strings.HasPrefix(from, "bench/"), testSupport(from):
		return ""
	case testSupport(to):
		return "test support is for tests and tools; product code does without it"
	case from == "api" || strings.HasPrefix(from, "api/"):
		return "api describes the product and imports nothing of it"
	case to == "api":
		return ""
	}
	target, internal := strings.CutPrefix(to, "internal/")
	if !internal {
		return "only packages below internal/ and api are there to be imported"
	}
	theirs, ok := standing(target)
	if !ok {
		return "it has no place: add it to a row in internal/archtest/imports_test.go"
	}
	if strings.HasPrefix(from, "cmd/") {
		return ""
	}
	ours, ok := standing(strings.TrimPrefix(from, "internal/"))
	if !ok {
		return "" // reported for the package as a whole
	}
	if ours.home != "app" {
		if theirs.adapter && theirs.home != ours.home {
			return "only app imports adapters; take an interface or a value, and let app pass it in"
		}
		for _, reserved := range belowAppOnly {
			if theirs.home == reserved && ours.home != reserved {
				return "only app imports it; take your own Options or Store, and let app fill them in"
			}
		}
	}
	switch {
	case theirs.home == ours.home, theirs.row < ours.row:
		return ""
	case theirs.row == ours.row:
		return "the two stand in the same row; move what both need to a lower row, or let app connect them"
	default:
		return "it stands in a higher row; turn the dependency around with an interface that stands with its user"
	}
}
