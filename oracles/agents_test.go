package oracles

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
}

// agents are the agents that are tried.
func agents() []agent {
	return []agent{
		{
			name: "Codex CLI", pkg: "@openai/codex", steps: []string{"calls exec_command to write the file", "calls exec_command to show the file", "reports, after 2 results"},
			program: "codex", door: "/v1/responses",
			args: func(*gateway) []string {
				return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", taskText}
			},
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
		},
		{
			name: "Claude Code", pkg: "@anthropic-ai/claude-code", steps: []string{"calls Write to write the file", "calls Bash to show the file", "reports, after 2 results"},
			program: "claude", door: "/v1/messages",
			args: func(*gateway) []string {
				return []string{"--print", "--allowedTools", "Bash,Write,Read", "--", taskText}
			},
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

// TestAgents lets each agent do the task. The model behind the gateway is a script that knows the names of
// the agents' tools: it writes the file, shows it, and reports.
func TestAgents(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(agentsEnv)
	if dir == "" {
		t.Skip("needs agents: set " + agentsEnv + " to a folder in which npm install has installed oracles/agents/package.json")
	}
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			program, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin", a.program))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(program); err != nil {
				t.Skipf("needs agents: %v", err)
			}
			a.work(t, program)
		})
	}
}

// work lets the agent do the task in a folder of its own.
func (a *agent) work(t *testing.T, program string) {
	t.Helper()
	home, place := t.TempDir(), t.TempDir()
	w := &worker{place: place}
	server := httptest.NewServer(http.HandlerFunc(w.complete))
	t.Cleanup(server.Close)
	g := startGateway(t, fmt.Sprintf(`providers: [{name: fake, kind: openai, base_url: "%s/v1", api_key: "%s"}]
models: [{id: %s, provider: fake, upstream: %s, plan: basic, context_length: 200000, max_output: 32000, tool_calling: true}]
`, server.URL, upstreamKey, faked, upstreamModel))
	g.model = faked
	if a.files != nil {
		for name, text := range a.files(g) {
			file := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, a.args(g)...)
	cmd.Dir = place
	// Nothing but the gateway can be reached: what an agent wants of the rest of the world, it does without.
	cmd.Env = append([]string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1", "CI=1", "LANG=C.UTF-8",
		"HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}, a.env(g)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	w.mu.Lock()
	defer w.mu.Unlock()
	said := strings.Join(w.steps, "\n")
	if err != nil {
		t.Fatalf("%s = %v\nsteps:\n%s\noutput:\n%s", a.program, err, said, out)
	}
	wrote, err := os.ReadFile(filepath.Join(place, proofFile))
	if err != nil || strings.TrimSpace(string(wrote)) != proofText {
		t.Errorf("%s has %q, %v, want %q\nsteps:\n%s\noutput:\n%s", proofFile, wrote, err, proofText, said, out)
	}
	if !strings.Contains(string(out), doneText) {
		t.Errorf("the agent does not report %q\nsteps:\n%s\noutput:\n%s", doneText, said, out)
	}
	// Requests beside the task, for a title or to see whether the model is there, are the agent's own affair.
	steps := slices.DeleteFunc(slices.Clone(w.steps), func(step string) bool { return step == aside })
	if !slices.Equal(steps, a.steps) {
		t.Errorf("the steps are\n%s\nwant\n%s", said, strings.Join(a.steps, "\n"))
	}
}

// worker is an upstream that does the task with the tools that a request offers.
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

// offered is a tool of a request, with what is needed to call it.
type offered struct {
	Type     string `json:"type"`
	Function struct {
		Name       string `json:"name"`
		Parameters struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
			Required []string `json:"required"`
		} `json:"parameters"`
	} `json:"function"`
}

// fill returns arguments for the tool: those of the properties that it has, and something for those that it
// requires and that are not given.
func (o *offered) fill(given map[string]any) string {
	args := map[string]any{}
	for name, p := range o.Function.Parameters.Properties {
		value, ok := given[name]
		switch {
		case ok && p.Type == "array":
			args[name] = []any{"bash", "-c", value}
		case ok:
			args[name] = value
		case slices.Contains(o.Function.Parameters.Required, name):
			args[name] = map[any]any{"boolean": false, "number": 1, "integer": 1, "array": []any{}}[p.Type]
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
	shells  = []string{"bash", "shell", "exec_command", "run_shell_command", "shell_command"}
)

// find returns the first tool with one of the names.
func find(tools []offered, names []string) *offered {
	for i := range tools {
		if slices.Contains(names, strings.ToLower(tools[i].Function.Name)) {
			return &tools[i]
		}
	}
	return nil
}

// complete is POST /v1/chat/completions.
func (w *worker) complete(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req struct {
		request
		Tools []offered `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		fail(rw, http.StatusBadRequest, err.Error())
		return
	}
	var results []string
	asked := false
	for _, m := range req.Messages {
		text, _ := json.Marshal(m.Content)
		if m.Role == "tool" {
			results = append(results, string(text))
		}
		asked = asked || m.Role == "user" && strings.Contains(string(text), taskText)
	}
	a := &answer{w: rw, stream: req.Stream, usage: req.StreamOptions.IncludeUsage}
	writer, shell := find(req.Tools, writers), find(req.Tools, shells)
	if !asked || shell == nil { // a title, a summary, or a check whether the model is there
		w.note(aside)
		a.say("A file about water")
		return
	}
	switch n := len(results); {
	case n == 0 && writer != nil:
		w.note("calls %s to write the file", writer.Function.Name)
		file := filepath.Join(w.place, proofFile)
		a.callOne(writer.Function.Name, writer.fill(map[string]any{"file_path": file, "filePath": file, "path": file, "content": proofText}))
	case n == 0:
		w.note("calls %s to write the file", shell.Function.Name)
		command := fmt.Sprintf("echo %s > %s", proofText, proofFile)
		a.callOne(shell.Function.Name, shell.fill(map[string]any{"command": command, "cmd": command}))
	case n == 1:
		w.note("calls %s to show the file", shell.Function.Name)
		command := "cat " + proofFile
		a.callOne(shell.Function.Name, shell.fill(map[string]any{"command": command, "cmd": command}))
	case strings.Contains(results[n-1], proofText):
		w.note("reports, after %d results", n)
		a.say(doneText, ".")
	default:
		w.note("the last result is %.300s", results[n-1])
		a.say("The file could not be shown.")
	}
}

// callOne answers with a call of one tool.
func (a *answer) callOne(name, arguments string) {
	call := fmt.Sprintf(`{"index":0,"id":"call_%d","type":"function","function":{"name":%s,"arguments":%s}}`, time.Now().UnixNano(), quoted(name), quoted(arguments))
	if !a.stream {
		a.whole(`"content":null,"tool_calls":[`+call+`]`, "tool_calls")
		return
	}
	a.begin("")
	a.chunk(`{"tool_calls":[`+call+`]}`, "")
	a.end("tool_calls")
}
