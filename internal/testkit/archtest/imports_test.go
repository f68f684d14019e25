package archtest

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// rooms are the folders of internal/, from the bottom to the top. A package imports packages of its own room and of
// rooms below it, so the tree is the diagram in docs/architecture.md.
var rooms = []string{
	"kit",      // leaves: errors, JSON, HTTP, logs and metrics, encryption; they know nothing else of the product
	"prompt",   // what callers ask for: chat completions and vectors
	"account",  // people, plans, keys, signing in, billing
	"ledger",   // limits, usage, the abuse score, and the nodes that share them
	"upstream", // providers, their models, routing, tool servers
	"line",     // the way of one call
	"video",    // the way of one video
	"operate",  // what operators and support see and do
	"api",      // the doors for programs, and their dialects
	"store",    // the database, and whole installations
	"web",      // the pages
	"app",      // connects everything
}

// adapters are folders whose own folders each know one vendor or one server. Only app imports those.
var adapters = []string{"upstream/provider", "account/billing", "ledger/admission", "video"}

// shared are folders of adapters that are none: others may import them.
var shared = []string{"upstream/provider/claude", "video/blob"}

// sandboxMay lists what the sandbox may import of internal/: the interface that its models implement, and the words
// of that.
var sandboxMay = []string{"internal/kit/", "internal/prompt/", "internal/upstream/provider"}

// room returns the position of a package's room, given its path without internal/.
func room(name string) int {
	first, _, _ := strings.Cut(name, "/")
	return slices.Index(rooms, first)
}

// adapter returns the folder of the adapter that a package belongs to, if any.
func adapter(name string) string {
	for dir := name; dir != "."; dir = path.Dir(dir) {
		if slices.Contains(adapters, path.Dir(dir)) && !slices.Contains(shared, dir) {
			return dir
		}
	}
	return ""
}

// testSupport reports whether a package exists only for tests, such as pgtest and storetest.
func testSupport(name string) bool {
	return strings.HasSuffix(name, "test") || strings.HasPrefix(name, "testkit/") || strings.HasPrefix(name, "internal/testkit/")
}

// related reports whether one package is in a folder of the other.
func related(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// checkImports applies the order of the rooms to every import of product code. Tests may import what they like.
func checkImports(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		name, internal := strings.CutPrefix(dir, "internal/")
		if internal && !testSupport(name) && room(name) < 0 {
			problems = append(problems, fmt.Sprintf("package %s is in no room: move it into one of %s", dir, strings.Join(rooms, ", ")))
			continue
		}
		for _, f := range t.packages[dir].files {
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
	case from == "api" || strings.HasPrefix(from, "api/") || from == "docs":
		return "api and docs describe the product and import nothing of it"
	case to == "api" || to == "docs":
		return ""
	}
	target, internal := strings.CutPrefix(to, "internal/")
	switch {
	case strings.HasPrefix(to, "sandbox/"):
		if strings.HasPrefix(from, "sandbox/") || strings.HasPrefix(from, "internal/app/") {
			return ""
		}
		return "only app imports the sandbox; take an interface, and let app pass it in"
	case !internal:
		return "only packages below internal/, sandbox/, api and docs are there to be imported"
	case strings.HasPrefix(from, "cmd/"):
		return ""
	case strings.HasPrefix(from, "sandbox/"):
		if slices.ContainsFunc(sandboxMay, func(may string) bool { return strings.HasPrefix(to, may) }) && adapter(target) == "" {
			return ""
		}
		return "the sandbox knows the interface that it implements, and nothing else of the product"
	}
	return judgeRooms(strings.TrimPrefix(from, "internal/"), target)
}

// judgeRooms judges an import of one package below internal/ by another.
func judgeRooms(from, to string) string {
	ours, theirs := room(from), room(to)
	switch {
	case rooms[ours] == "app":
		return ""
	case adapter(to) != "" && adapter(to) != adapter(from):
		return "only app imports adapters; take an interface or a value, and let app pass it in"
	case theirs > ours:
		return "its room is above this one; turn the dependency around with an interface that stands with its user"
	case theirs >= 0 && rooms[theirs] == "store" && ours != theirs:
		return "only app imports the store; take your own Store, and let app pass it in"
	}
	return ""
}
