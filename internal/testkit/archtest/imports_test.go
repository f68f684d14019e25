package archtest

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// rows is the order of the packages below internal/. A package may import those of lower rows only, and
// none of its own row. "x/*" stands for every folder of x, each of which is an adapter: code that knows
// one vendor or one wire format. A folder below a listed package belongs to it and shares its row; the
// two may import each other. A package may be listed before it exists.
var rows = [][]string{
	// What Go's library lacks.
	{"pdf", "passkey"},
	// Text: bytes, characters and counts. These packages know nothing else of the project.
	{"jsonscan", "excerpt", "metrics", "alias", "colour", "allowance"},
	// The vocabulary that every package may use. It knows only text.
	{"fault", "config", "telemetry", "buildinfo", "tokens", "datadir", "sse", "pulse", "seal", "plainhttp", "lane", "health"},
	// The types that requests and storage are made of, and the connections to the outside.
	{"chat", "netguard", "account", "blob", "mail", "turnstile"},
	// Facts: the catalog, usage, accounts and their keys, and earlier turns of a conversation.
	{"catalog", "usage", "billing", "auth", "signin", "continuation", "idempotency", "resume", "refusal", "embeddings"},
	// Admission of requests, and the way an upstream is called; payment adapters know billing. provider/claude
	// is not an adapter: several adapters share what it knows about one family of models. Staff's decisions about the
	// running service know the catalog. Signals, the finder and activity read what calls have left behind.
	{"abuse", "admission", "staff", "provider", "provider/claude", "mcpclient", "billing/*", "steering", "signal", "finder", "activity"},
	// Code that works with upstreams, every wire format, the notices that accounts get, and the servers that
	// share a database. Ledgers on other servers know admission, and count units for abuse.
	{"cluster", "notice", "matter", "routing", "relay", "toolloop", "discovery", "provider/*", "admission/*"},
	// The two services: chat completions and video jobs; what is seen of them; and the dialects of other doors to the
	// first, which write replies through relay; and what the router learns from calls.
	{"inference", "video", "video/*", "overview", "messages", "responses", "feedback"},
	// Alerts, which know all that they are about.
	{"alert"},
	// The entrances (HTTP, MCP, admin), and the store, which knows all facts and the video jobs.
	{"httpapi", "mcpserver", "webui", "admin", "sqlstore"},
	// The pages for everybody; the customer's pages use parts of them.
	{"front"},
	// The pages, which share webui; the doctor, which queries a running server; and what copies whole
	// installations from one store to another.
	{"dashboard", "support", "doctor", "installation"},
	// app connects everything.
	{"app"},
}

// belowAppOnly lists packages that only app and the command may import. The same holds for every adapter:
// a capability takes its own Options and Store, never the configuration or the database.
var belowAppOnly = []string{"config", "sqlstore"}

// knowsStore is the one package below app that is about the database itself: it copies all of it.
const knowsStore = "installation"

// place is the position of a package in rows.
type place struct {
	row     int
	home    string // the listed package that it belongs to
	adapter bool
}

// standing returns the place of a package below internal/, given its path without that prefix.
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

// testSupport reports whether a package exists only for tests, such as pgtest and storetest.
func testSupport(name string) bool { return strings.HasSuffix(name, "test") }

// related reports whether one package is in a folder of the other.
func related(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// checkImports applies the rows to every import of product code. Tests may import what they like.
func checkImports(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		p := t.packages[dir]
		if name, ok := strings.CutPrefix(dir, "internal/"); ok && !testSupport(name) {
			if _, ok := standing(name); !ok {
				problems = append(problems, fmt.Sprintf("package %s has no place: add it to a row in internal/testkit/archtest/imports_test.go", dir))
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

// judge returns what is wrong with an import, or an empty string. Both are folders of the module.
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
		return "it has no place: add it to a row in internal/testkit/archtest/imports_test.go"
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
			if theirs.home == reserved && ours.home != reserved && (ours.home != knowsStore || reserved != "sqlstore") {
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
