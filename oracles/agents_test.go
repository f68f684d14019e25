package oracles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/vendortest"
)

// agentsEnv is where the test run says that the packages of oracles/agents are installed: a folder with
// node_modules. They take more than a gigabyte, so that only a soak installs them.
const agentsEnv = "SLUICE_TEST_AGENTS"

// The task of the agents: write a file with a tool, read it with a command, and say what it says.
const (
	proofFile = "proof.txt"
	proofText = "water through the sluice"
	taskText  = "Write the file " + proofFile + ", show it with a shell command, and tell me what it says."
	doneText  = "The file says: " + proofText
	goOnText  = "Go on."
)

// agent is a program that works on a task by itself, headless.
type agent struct {
	name    string
	pkg     string                    // in agents/package.json
	program string                    // in node_modules/.bin
	door    string                    // what it speaks
	args    func(g *gateway) []string // the task is the last
	env     func(g *gateway) []string
	files   func(g *gateway) map[string]string // in its home
	steps   []string                           // what the model saw it do
	model   string                             // that it asks for, an alias of the one there is; empty: that one
	// again goes on with a session that had run into its budget; nil: it is not tried. The words to the agent are the last.
	again func(session string) []string
	// repeats is how often it repeats the call that does not fit, and shown what it puts in front of our message.
	repeats int
	shown   string
}

// agents are the agents that are tried.
func agents() []agent {
	return []agent{
		codex("Codex CLI", "", "exec_command"), codex("Codex CLI, GPT-5.6", "gpt-5.6-sol", orchestra), codex("Codex CLI, GPT-6", "gpt-6-sol", orchestra),
		{
			name: "Claude Code", pkg: "@anthropic-ai/claude-code", steps: []string{"calls Write to write the file", "calls Bash to show the file", "reports, after 2 results"},
			program: "claude", door: "/v1/messages",
			args: func(*gateway) []string {
				return []string{"--print", "--allowedTools", "Bash,Write,Read", "--", taskText}
			},
			again: func(session string) []string {
				return []string{"--print", "--allowedTools", "Bash,Write,Read", "--resume", session, "--", goOnText}
			},
			shown: "API Error: 402 ",
			env: func(g *gateway) []string {
				return []string{
					"ANTHROPIC_BASE_URL=" + strings.TrimSuffix(g.url, "/v1"), "ANTHROPIC_AUTH_TOKEN=" + g.owner, "ANTHROPIC_MODEL=" + g.model, "ANTHROPIC_SMALL_FAST_MODEL=" + g.model,
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
				}
			},
		},
		{
			name: "opencode", pkg: "opencode-ai", steps: []string{"calls write to write the file", "calls bash to show the file", "reports, after 2 results"},
			program: "opencode", door: "/v1/chat/completions",
			args: func(g *gateway) []string { return []string{"run", "--auto", "-m", "sluice/" + g.model, taskText} },
			env: func(*gateway) []string {
				return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
			},
			files: func(g *gateway) map[string]string {
				return map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{
  "autoupdate": false,
  "provider": {
    "sluice": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": %q, "apiKey": %q},
      "models": {%q: {"limit": {"context": 32768, "output": 4096}}}
    }
  }
}
`, g.url, g.owner, g.model)}
			},
		},
		{
			name: "Qwen Code", pkg: "@qwen-code/qwen-code", steps: []string{"calls write_file to write the file", "calls run_shell_command to show the file", "reports, after 2 results"},
			program: "qwen", door: "/v1/chat/completions",
			args: func(*gateway) []string { return []string{"--yolo", taskText} },
			env: func(g *gateway) []string {
				return []string{"OPENAI_API_KEY=" + g.owner, "OPENAI_BASE_URL=" + g.url, "OPENAI_MODEL=" + g.model}
			},
			files: func(*gateway) map[string]string {
				return map[string]string{".qwen/settings.json": `{"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}}`}
			},
		},
		{
			name: "pi", pkg: "@mariozechner/pi-coding-agent", steps: []string{"calls write to write the file", "calls bash to show the file", "reports, after 2 results"},
			program: "pi", door: "/v1/chat/completions",
			args: func(g *gateway) []string {
				return []string{"--offline", "--model", "sluice/" + g.model, "-p", taskText}
			},
			env: func(g *gateway) []string { return []string{"SLUICE_KEY=" + g.owner} },
			files: func(g *gateway) map[string]string {
				return map[string]string{".pi/agent/models.json": fmt.Sprintf(`{"providers": {"sluice": {"baseUrl": %q, "api": "openai-completions", "apiKey": "SLUICE_KEY", "models": [{"id": %q}]}}}`, g.url, g.model)}
			},
		},
	}
}

// codex is Codex, which gives models other tools by their names.
func codex(name, model, tool string) agent {
	return agent{
		name: name, model: model, pkg: "@openai/codex", steps: []string{"calls " + tool + " to write the file", "calls " + tool + " to show the file", "reports, after 2 results"},
		program: "codex", door: "/v1/responses",
		args: func(*gateway) []string {
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", taskText}
		},
		again: func(session string) []string {
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "resume", session, goOnText}
		},
		// It repeats everything but a 400 and a 429, as often as stream_max_retries in its settings says. A 429 hides our message.
		repeats: 5, shown: "unexpected status 402 Payment Required: ",
		env: func(g *gateway) []string { return []string{"SLUICE_KEY=" + g.owner} },
		files: func(g *gateway) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf(`model = %q
model_provider = "sluice"
check_for_update_on_startup = false

[model_providers.sluice]
name = "Sluice"
base_url = %q
env_key = "SLUICE_KEY"
wire_api = "responses"
`, g.model, g.url)}
		},
	}
}

// servers are the upstreams that the agents work with, each by a dialect of its own. Azure stands for OpenAI.
var servers = map[string]string{
	"chat":      `kind: openai, base_url: "%s/v1", api_key: vendor-key}|lab-model`,
	"responses": `kind: azure, base_url: %q, api_key: vendor-key, api: responses}|gpt-6-sol`,
	"messages":  `kind: anthropic, base_url: %q, api_key: vendor-key}|claude-sonnet-5-5`,
}

// TestAgents lets each agent do the task with each upstream. The model behind the gateway is a script that knows the names of the
// agents' tools: it writes the file, shows it, and reports. Nothing may be refused, repeated or warned of on the way.
func TestAgents(t *testing.T) {
	t.Parallel()
	dir := agentsFolder(t)
	for _, a := range agents() {
		text, _ := os.ReadFile(filepath.Join(dir, "node_modules", a.pkg, "package.json")) // if it is not there, its tests skip
		var installed struct{ Version string }
		_ = json.Unmarshal(text, &installed)
		t.Logf("soak: %s %s", a.pkg, installed.Version)
		for _, server := range slices.Sorted(maps.Keys(servers)) {
			name := a.name + " at " + server
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if wrong := a.work(t, a.installed(t, dir), server); wrong != "" {
					t.Error(wrong)
				}
			})
		}
	}
}

// agentsFolder returns where the agents are installed.
func agentsFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(agentsEnv)
	if dir == "" {
		t.Skip("needs agents: set " + agentsEnv + " to a folder in which npm install has installed oracles/agents/package.json")
	}
	return dir
}

// installed returns the path of the agent.
func (a *agent) installed(t *testing.T, dir string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin", a.program))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs agents: %v", err)
	}
	return program
}

// work lets the agent do the task in a folder of its own, and returns what went wrong.
func (a *agent) work(t *testing.T, program, server string) string {
	t.Helper()
	home, place := t.TempDir(), t.TempDir()
	w := &worker{place: place}
	vendor := &vendortest.Vendor{Script: w.script}
	upstream := httptest.NewServer(vendor)
	t.Cleanup(upstream.Close)
	provider, model, _ := strings.Cut(servers[server], "|")
	g := startGateway(t, fmt.Sprintf(`providers: [{name: fake, allow_image_urls: true, `+provider+`]
models: [{id: %s, provider: fake, upstream: %s, plan: basic, context_length: 200000, max_output: 32000, tool_calling: true, reasoning: true}]
aliases: {"gpt-*": %[2]s, "claude-*": %[2]s}
`, upstream.URL, faked, model))
	g.model = cmp.Or(a.model, faked)
	a.settle(t, g, home)
	out, err := a.run(t, g, a.args(g), program, home, place)
	w.mu.Lock()
	defer w.mu.Unlock()
	said := fmt.Sprintf("\nsteps:\n%s\nrefused:\n%s\nlog:\n%s\noutput:\n%s", strings.Join(w.steps, "\n"), refusals(vendor.Take()), strings.Join(g.log.odd(), "\n"), out)
	// Requests beside the task, for a title or to see whether the model is there, are the agent's own affair.
	steps := slices.DeleteFunc(slices.Clone(w.steps), func(step string) bool { return step == aside })
	wrote, _ := os.ReadFile(filepath.Join(place, proofFile))
	switch {
	case err != nil:
		return fmt.Sprintf("%s = %v%s", a.program, err, said)
	case strings.TrimSpace(string(wrote)) != proofText:
		return fmt.Sprintf("%s has %q, want %q%s", proofFile, wrote, proofText, said)
	case !strings.Contains(string(out), doneText):
		return fmt.Sprintf("the agent does not report %q%s", doneText, said)
	case !slices.Equal(steps, a.steps):
		return fmt.Sprintf("the steps are not\n%s%s", strings.Join(a.steps, "\n"), said)
	case len(g.log.odd()) > 0:
		return "the log has what should not be there" + said
	}
	return ""
}

// settle writes the agent's files of settings.
func (a *agent) settle(t *testing.T, g *gateway, home string) {
	t.Helper()
	if a.files == nil {
		return
	}
	for name, text := range a.files(g) {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs the agent. Nothing but the gateway can be reached: what an agent wants of the rest of the world, it does without.
func (a *agent) run(t *testing.T, g *gateway, args []string, program, home, place string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = place
	cmd.Env = append([]string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1", "CI=1", "LANG=C.UTF-8",
		"HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}, a.env(g)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}

// refusals returns what the vendor has refused.
func refusals(heard []vendortest.Heard) (all string) {
	for _, h := range heard {
		if h.Refused != "" {
			all += fmt.Sprintf("%s: %s\n%.2000s\n", h.Path, h.Refused, h.Body)
		}
	}
	return all
}

// logged is what a gateway has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// odd returns the lines about what no client should meet: warnings, refusals, and calls that an upstream was asked twice for.
func (l *logged) odd() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(l.text.String(), "\n") {
		var e struct {
			Level    string `json:"level"`
			Msg      string `json:"msg"`
			Path     string `json:"path"`
			Status   int    `json:"status"`
			Attempts int    `json:"attempts"`
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Msg == "configuration" {
			continue // which has a key in its file
		}
		if e.Level == "WARN" || e.Level == "ERROR" || e.Status >= 400 && !slices.Contains(probed, e.Path) || e.Attempts > 1 {
			lines = append(lines, line)
		}
	}
	return lines
}

// probed are paths that agents try to see what a server can; a 404 is what they expect of others.
var probed = []string{"/api/hello"}

// worker does the task with the tools that a request offers.
type worker struct {
	place string // the agent's folder
	mu    sync.Mutex
	steps []string // what happened, a line each
}

// aside is the step of a request that is not about the task.
const aside = "a request without the task or without tools"

// note adds a line to what happened.
func (w *worker) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, fmt.Sprintf(format, args...))
}

// filled returns arguments for a tool: those of the properties that it has, and something for those that it requires and that are
// not given.
func filled(tool *vendortest.Tool, given map[string]any) string {
	args := map[string]any{}
	properties, _ := tool.Schema["properties"].(map[string]any)
	required, _ := tool.Schema["required"].([]any)
	for name, p := range properties {
		schema, _ := p.(map[string]any)
		value, ok := given[name]
		switch {
		case ok && schema["type"] == "array":
			args[name] = []any{"bash", "-c", value}
		case ok:
			args[name] = value
		case slices.Contains(required, any(name)):
			args[name] = map[any]any{"boolean": false, "number": 1, "integer": 1, "array": []any{}}[schema["type"]]
			if args[name] == nil {
				args[name] = "a step of the task"
			}
		}
	}
	text, _ := json.Marshal(args)
	return string(text)
}

// The names under which agents offer to write a file and to run a command, in lower case.
var (
	writers = []string{"write", "write_file"}
	shells  = []string{"bash", "shell", "exec_command", "run_shell_command", "shell_command", orchestra}
)

// orchestra is Codex's tool for its newer models, in a namespace: a program that calls the others.
const orchestra = "exec"

// plainName returns the name of a tool without its namespace.
func plainName(tool *vendortest.Tool) string {
	return strings.TrimPrefix(tool.Name, "functions__")
}

// find returns the first tool with one of the names.
func find(tools []vendortest.Tool, names []string) *vendortest.Tool {
	for i := range tools {
		if slices.Contains(names, strings.ToLower(plainName(&tools[i]))) {
			return &tools[i]
		}
	}
	return nil
}

// orchestrated returns a program that runs a command: as it is for a tool that takes a text, or as the one argument of a function.
func orchestrated(tool *vendortest.Tool, command string) string {
	program := fmt.Sprintf("text(await tools.exec_command({cmd: %q}))", command)
	if tool.Schema == nil {
		return program
	}
	given := map[string]any{}
	properties, _ := tool.Schema["properties"].(map[string]any)
	for name := range properties {
		given[name] = program
	}
	return filled(tool, given)
}

// script is what the model does.
func (w *worker) script(asked *vendortest.Asked) *vendortest.Answer {
	writer, shell := find(asked.Tools, writers), find(asked.Tools, shells)
	if shell == nil || !slices.ContainsFunc(asked.Said, func(s string) bool { return strings.Contains(s, taskText) }) {
		w.note(aside) // a title, a summary, or a check whether the model is there
		return &vendortest.Answer{Text: "A file about water"}
	}
	run := func(what, command string) *vendortest.Answer {
		w.note("calls %s to %s the file", plainName(shell), what)
		if plainName(shell) == orchestra {
			return &vendortest.Answer{Call: shell.Name, Arguments: orchestrated(shell, command)}
		}
		return &vendortest.Answer{Call: shell.Name, Arguments: filled(shell, map[string]any{"command": command, "cmd": command})}
	}
	switch n := len(asked.Returned); {
	case n == 0 && writer != nil:
		w.note("calls %s to write the file", writer.Name)
		file := filepath.Join(w.place, proofFile)
		return &vendortest.Answer{Call: writer.Name, Arguments: filled(writer, map[string]any{"file_path": file, "filePath": file, "path": file, "content": proofText})}
	case n == 0:
		return run("write", fmt.Sprintf("echo %s > %s", proofText, proofFile))
	case n == 1:
		return run("show", "cat "+proofFile)
	case strings.Contains(asked.Returned[n-1], proofText):
		w.note("reports, after %d results", n)
		return &vendortest.Answer{Text: doneText + "."}
	default:
		w.note("the last result is %.300s", asked.Returned[n-1])
		return &vendortest.Answer{Text: "The file could not be shown."}
	}
}
