package oracles

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var writePage = flag.Bool("write-clients", false, "write docs/call/clients.md anew")

// library is a client library that is tried here.
type library struct {
	name, pkg string // pkg is its name in node/package.json or in go.mod
	door      string
	configure string   // how it is pointed at the gateway
	file      string   // where its tests are
	works     []string // what they try
}

// The addresses and names in the examples of the page.
const (
	pageURL   = "http://127.0.0.1:8080/v1"
	pageModel = "sandbox/small"
)

func libraries() []library {
	const openaiJS = `new OpenAI({ baseURL: "` + pageURL + `", apiKey: process.env.SLUICE_KEY })`
	return []library{
		{"OpenAI for JavaScript", "openai", "/v1/chat/completions", openaiJS, "node/openai.test.mjs", []string{"whole and streamed replies", "tools", "parse", "errors", "models"}},
		{"OpenAI for Go", "github.com/openai/openai-go/v3", "/v1/chat/completions", `openai.NewClient(option.WithBaseURL("` + pageURL + `"), option.WithAPIKey(key))`, "chat_test.go", []string{"whole and streamed replies", "tools", "errors", "retries"}},
		{"AI SDK, openai-compatible", "@ai-sdk/openai-compatible", "/v1/chat/completions", `createOpenAICompatible({ name: "sluice", baseURL: "` + pageURL + `", apiKey: process.env.SLUICE_KEY })`, "node/ai.test.mjs", []string{"generateText", "streamText", "generateObject", "tools"}},
		{"Anthropic for JavaScript", "@anthropic-ai/sdk", "/v1/messages", `new Anthropic({ baseURL: "http://127.0.0.1:8080", apiKey: process.env.SLUICE_KEY })`, "node/anthropic.test.mjs", []string{"whole and streamed replies", "tools", "thinking", "images", "JSON", "token counts", "models", "errors"}},
		{"Anthropic for Go", "github.com/anthropics/anthropic-sdk-go/v2", "/v1/messages", `anthropic.NewClient(option.WithBaseURL("http://127.0.0.1:8080"), option.WithAPIKey(key))`, "messages_test.go", []string{"whole and streamed replies", "tools", "thinking", "token counts", "models", "errors"}},
		{"AI SDK, Anthropic", "@ai-sdk/anthropic", "/v1/messages", `createAnthropic({ baseURL: "` + pageURL + `", apiKey: process.env.SLUICE_KEY })`, "node/anthropic.test.mjs", []string{"generateText", "streamText", "generateObject", "tools", "reasoning"}},
		{"OpenAI for JavaScript, Responses", "openai", "/v1/responses", openaiJS, "node/responses.test.mjs", []string{"create", "stream", "parse", "tools", "conversations by previous_response_id"}},
		{"OpenAI for Go, Responses", "github.com/openai/openai-go/v3", "/v1/responses", `openai.NewClient(option.WithBaseURL("` + pageURL + `"), option.WithAPIKey(key))`, "responses_test.go", []string{"create", "stream", "tools"}},
		{"AI SDK, openai", "@ai-sdk/openai", "/v1/responses", `createOpenAI({ baseURL: "` + pageURL + `", apiKey: process.env.SLUICE_KEY })`, "node/responses.test.mjs", []string{"generateText", "streamText", "tools", "objects"}},
		{"OpenAI Agents for JavaScript", "@openai/agents", "/v1/responses", `setDefaultOpenAIClient(` + openaiJS + `)`, "node/responses.test.mjs", []string{"a run with tools"}},
		{"LangChain for JavaScript", "@langchain/openai", "/v1/responses", `new ChatOpenAI({ model: "` + pageModel + `", useResponsesApi: true, apiKey: process.env.SLUICE_KEY, configuration: { baseURL: "` + pageURL + `" } })`, "node/responses.test.mjs", []string{"invoke", "stream", "tools"}},
		{"OpenAI for JavaScript, embeddings", "openai", "/v1/embeddings", openaiJS, "node/embeddings.test.mjs", []string{"floats", "base64"}},
		{"OpenAI for JavaScript, videos", "openai", "/v1/videos", openaiJS, "node/videos.test.mjs", []string{"create", "retrieve", "list", "downloadContent", "delete"}},
		{"MCP for TypeScript", "@modelcontextprotocol/sdk", "/mcp", `new StreamableHTTPClientTransport(new URL("http://127.0.0.1:8080/mcp"), { requestInit: { headers: { Authorization: "Bearer " + process.env.SLUICE_KEY } } })`, "node/mcp.test.mjs", []string{"tools of the gateway's own server", "conformance"}},
	}
}

// version returns the version of a package that the tests use.
func version(t *testing.T, pkg string) string {
	t.Helper()
	text, err := os.ReadFile("node/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if v := list.Dependencies[pkg]; v != "" {
		return v
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(pkg) + ` v(\S+)`).FindSubmatch(mod)
	if m == nil {
		t.Fatalf("no test uses the package %s", pkg)
	}
	return string(m[1])
}

// page returns docs/call/clients.md.
func page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Clients\n\n<!-- Written by go test -run TestClientsPage -write-clients in oracles. -->\n\n")
	b.WriteString("Programs that were tried against Sluice, with the version, and how to point them at it. The address is that of a server on your own machine, `SLUICE_KEY` your key, and the model any that `GET /v1/models` lists.\n")
	b.WriteString("`sluice doctor --clients` tries all doors of a running server.\n\n")
	b.WriteString("## Libraries\n\nEvery one is run by `make test`, in the file that is named.\n\n| library | version | door | works | tested in |\n|---|---|---|---|---|\n")
	for _, c := range libraries() {
		if _, err := os.Stat(c.file); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&b, "| %s (`%s`) | %s | `%s` | %s | `oracles/%s` |\n", c.name, c.pkg, version(t, c.pkg), c.door, strings.Join(c.works, ", "), c.file)
	}
	b.WriteString("\n")
	// One library may stand for several doors, and is pointed at each in the same way.
	shown := map[string]bool{}
	for _, c := range libraries() {
		if shown[c.configure] {
			continue
		}
		shown[c.configure] = true
		lang := "js"
		if strings.HasSuffix(c.file, ".go") {
			lang = "go"
		}
		var names []string
		for _, same := range libraries() {
			if same.configure == c.configure {
				names = append(names, same.name)
			}
		}
		fmt.Fprintf(&b, "%s:\n\n```%s\n%s\n```\n\n", strings.Join(names, "; "), lang, c.configure)
	}
	b.WriteString("## Agents\n\nEach does a small task without a person, in `oracles/agents_test.go`: it writes a file with a tool, shows it with a shell command and reports what it says. The model is a script, so that the run is the same each time. `make soak` runs them.\n\n" +
		"The lines write files of settings and do not overwrite one that you have: then `set -C` makes the shell refuse. Add what is between the two `EOF` to yours.\n")
	g := &gateway{url: pageURL, owner: "$SLUICE_KEY", model: pageModel}
	for _, a := range agents() {
		if a.model != "" {
			continue // the same agent once more
		}
		fmt.Fprintf(&b, "\n### %s\n\nThe newest version of `%s`, over `%s`.\n\n<!-- not run: needs the agent; TestAgents in oracles runs it -->\n```sh\n", a.name, a.pkg, a.door)
		for _, line := range a.env(g) {
			name, value, _ := strings.Cut(line, "=")
			if value != "$"+name {
				fmt.Fprintf(&b, "export %s=%s\n", name, value)
			}
		}
		if a.files != nil {
			files := a.files(g)
			for _, name := range slices.Sorted(maps.Keys(files)) {
				fmt.Fprintf(&b, "mkdir -p ~/%s\n(set -C; cat > ~/%s) <<EOF\n%s\nEOF\n", path.Dir(name), name, strings.TrimSpace(files[name]))
			}
		}
		args := a.args(g)
		fmt.Fprintf(&b, "%s %s \"Write the file …\"\n```\n\nWhat happened:\n\n", a.program, strings.Join(args[:len(args)-1], " "))
		for _, step := range a.steps {
			fmt.Fprintf(&b, "- %s\n", step)
		}
		if a.again == nil {
			continue
		}
		fmt.Fprintf(&b, "\nAt the end of the [budget of its session](../teams/budgets.md#sessions-and-tags) it ends and shows our message with the link after `%s`.", strings.TrimSpace(a.shown))
		if a.repeats > 0 {
			fmt.Fprintf(&b, " Before that it repeats the call %d times within a few seconds (`stream_max_retries` in its settings), which costs nothing.", a.repeats)
		}
		again := a.again("SESSION")
		fmt.Fprintf(&b, " When the owner has added to the session, `%s %s \"%s\"` does the rest of the task; the link ends with the name of the session.\n", a.program, strings.Join(again[:len(again)-1], " "), goOnText)
	}
	return b.String()
}

// TestClientsOnce finds rows that say the same thing twice.
func TestClientsOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range libraries() {
		if what := c.pkg + " " + c.door; seen[what] {
			t.Errorf("docs/call/clients.md has %s twice", what)
		} else {
			seen[what] = true
		}
	}
}

// TestClientsPage holds the page of clients against what is tried.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "docs", "call", "clients.md")
	want := page(t)
	if *writePage {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/call/clients.md is not what the tests try (%v); run go test -run TestClientsPage -write-clients in oracles", err)
	}
}
