package main

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docPage says what the reader of a page has before the first command, and what the commands must come to.
type docPage struct {
	// before is typed first: what an earlier page, or the text of this one, has the reader do.
	before string
	// prepare does what no command does, after before.
	prepare func(*machine)
	// steps has what the text has the reader do before a block, by the first line of the block.
	steps map[string]string
	// says is in what the last block prints.
	says string
	// errors is how many replies of the API are errors on purpose. Any other fails the page.
	errors int
	// then looks at the machine after the last block.
	then func(*machine)
}

// What readers have before they read a page.
const (
	// A server with the sandbox models and a customer, and a key in the variable of callers.
	serving = `sluice serve
sluice account create --email ana@example.com --plan basic
sluice key regenerate-master
export SLUICE_KEY=service-…
`
	// The package, whose server runs.
	installed = "apt install ./sluice_0.0.0_amd64.deb\n"
)

// pages has every page with commands.
var pages = map[string]docPage{
	"README.md":            {says: "service-", then: hasLab},
	"docs/call/README.md":  {before: serving, says: `"group_by":"model"`},
	"docs/call/limits.md":  {before: serving, says: "X-Ratelimit-Remaining-Requests"},
	"docs/call/sandbox.md": {before: serving, says: "get_weather", errors: 2},
	"docs/call/status.md":  {before: serving, says: `"status":"operational"`},
	"docs/call/videos.md":  {before: serving, then: func(m *machine) { m.run("test -s clip.mp4") }},
	"docs/care/README.md":  {before: serving, says: `"status":"ok"`},
	"docs/care/backup.md": {
		before: serving, says: "Restored",
		steps: map[string]string{"sluice restore /var/backups/sluice/monday": "interrupt; mv data lost; mkdir -m 700 data; cp lost/secret.key data"},
	},
	// A server on SQLite has to stop for a replay; on PostgreSQL the others go on.
	"docs/care/disasters.md": {before: serving + "interrupt; mkdir /mnt/lost; cp -r data /mnt/lost", says: "data/sluice.db"},
	"docs/care/notifications.md": {
		before: "echo 'alerts: {webhooks: [{name: pager, url: \"http://127.0.0.1:9/\", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]}' > sluice.yaml\n" + serving,
	},
	"docs/care/observability.md":    {before: serving, then: func(m *machine) { m.run("test -s heap.pb.gz -a -s sluice-debug-*.tar.gz") }},
	"docs/care/readiness.md":        {before: serving, says: `"status":"ok"`},
	"docs/care/incidents.md":        {before: serving},
	"docs/care/steering.md":         {before: serving},
	"docs/care/troubleshooting.md":  {before: serving, says: `"status":"ok"`},
	"docs/care/upgrade.md":          {before: installed + `printf '#!/bin/sh\nexec sluice "$@"\n' > /tmp/sluice-new; chmod +x /tmp/sluice-new`},
	"docs/providers/README.md":      {before: serving, says: "provider lab", then: hasLab, steps: map[string]string{"sluice doctor": reloaded}},
	"docs/providers/auto.md":        {before: "echo 'router: {feedback: true}' > sluice.yaml\n" + serving},
	"docs/run/install.md":           {},
	"docs/run/many-nodes.md":        {before: installed, says: "/etc/sluice/sluice.yaml is valid."},
	"docs/run/one-server.md":        {},
	"docs/run/postgresql.md":        {before: serving, says: "Nothing was changed."},
	"docs/sell/abuse.md":            {before: serving},
	"docs/sell/admin-api.md":        {before: serving + "sluice account set-staff ana@example.com yes", prepare: twoSteps, says: "ana@example.com"},
	"docs/sell/support.md":          {before: serving},
	"docs/sell/tickets.md":          {before: serving},
	"docs/start/from-litellm.md":    {says: "Accounts: 1. Keys: 1."},
	"docs/start/from-new-api.md":    {says: "Accounts: 1. Keys: 1."},
	"docs/start/from-openrouter.md": {says: "moved.yaml is valid."},
	"docs/start/from-portkey.md":    {says: "moved.yaml is valid."},
	"docs/start/README.md":          {steps: map[string]string{"export OPENAI_API_KEY=sk-…": "interrupt"}, says: "/signin", then: hasLab},
	"docs/teams/README.md":          {before: "sluice serve"},
	"docs/teams/budgets.md":         {before: serving, says: "No key is paused"},
	"docs/teams/dashboard.md":       {before: serving, says: "/signin"},
}

// reloaded waits, as the text says, until the server has loaded what was pasted.
const reloaded = "until sluice models | grep -q '^lab/small '; do sleep 0.05; done"

// hasLab reports an error unless the server takes over the provider that was pasted.
func hasLab(m *machine) { m.run(reloaded) }

// twoSteps turns on two-step sign-in for everybody, which takes an authenticator app.
func twoSteps(m *machine) {
	db, err := sql.Open("sqlite", filepath.Join(m.dir, "data", "sluice.db")+"?_pragma=busy_timeout(10000)")
	must(m.t, err)
	defer db.Close()
	_, err = db.Exec("INSERT INTO logins (account_id, password, totp_secret, totp_on, totp_step) SELECT id, '', '', 1, 0 FROM accounts")
	must(m.t, err)
}

// TestCommandsOfPages types every command of README.md, docs/ and deploy/ in the order of its page, on a machine made
// for the page. A block that cannot run here has the line
//
//	<!-- not run: REASON -->
//
// before it. With -v, the test lists these.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
	typed, marked := 0, 0
	for path, blocks := range readPages(t) {
		commands := slices.DeleteFunc(blocks, func(b block) bool { return b.language != "sh" })
		typed += len(commands)
		marked += explain(t, path, commands)
		row, known := pages[path]
		runs := slices.ContainsFunc(commands, func(b block) bool { return b.reason == "" })
		switch {
		case runs && !known:
			t.Errorf("%s has commands; say in pages what its reader has before, and what the commands must print", path)
		case known && !runs:
			t.Errorf("%s has no commands that run; take it out of pages", path)
		case runs:
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				newMachine(t).follows(row, commands)
			})
		}
	}
	for path := range pages {
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
			t.Errorf("pages has %s, which does not exist", path)
		}
	}
	t.Logf("%d blocks are typed, %d are not run", typed-marked, marked)
}

// explain lists the blocks that are not run, and returns their number.
func explain(t *testing.T, path string, commands []block) (marked int) {
	for _, b := range commands {
		if b.reason == "" {
			continue
		}
		marked++
		t.Logf("%s:%d is not run: %s", path, b.line, b.reason)
		if problem := b.idle(); problem != "" {
			t.Errorf("%s:%d %s", path, b.line, problem)
		}
	}
	return marked
}

var apiError = regexp.MustCompile(`\{"(type":"error",")?error": ?\{`)

// follows types the blocks of a page.
func (m *machine) follows(row docPage, blocks []block) {
	if row.before != "" {
		m.types(row.before)
	}
	if row.prepare != nil {
		row.prepare(m)
	}
	errors, steps := 0, 0
	for _, b := range blocks {
		if b.reason != "" {
			continue
		}
		first, _, _ := strings.Cut(b.text, "\n")
		if step, ok := row.steps[first]; ok {
			m.types(step)
			steps++
		}
		m.types(b.text)
		found := len(apiError.FindAllString(m.said, -1))
		if errors += found; errors > row.errors {
			m.t.Fatalf("line %d: the commands\n\n%s\nwere answered with an error:\n%s", b.line, b.text, m.said)
		}
	}
	if steps != len(row.steps) {
		m.t.Errorf("%d of %d steps were made; the first lines of the blocks have changed", steps, len(row.steps))
	}
	if errors < row.errors {
		m.t.Errorf("the page shows %d errors, want %d", errors, row.errors)
	}
	if !strings.Contains(m.said, row.says) {
		m.t.Errorf("the last commands print\n%s\nwant %q in it", m.said, row.says)
	}
	if row.then != nil {
		row.then(m)
	}
}

// block is a fenced block of a page.
type block struct {
	line     int
	language string
	text     string
	reason   string // why it is not run
}

var (
	fence  = regexp.MustCompile("^( *)(```+)(\\w*) *$")
	notRun = regexp.MustCompile(`^ *<!-- not run:(.*)-->$`)
)

// readBlocks returns the fenced blocks of a page.
func readBlocks(text string) (blocks []block, err error) {
	var open []string // the match of the fence that begins the block
	before := ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open = m
			blocks = append(blocks, block{line: i + 1, language: m[3]})
			if r := notRun.FindStringSubmatch(before); r != nil {
				blocks[len(blocks)-1].reason = strings.TrimSpace(r[1])
				if len(strings.Fields(r[1])) < 2 {
					return nil, fmt.Errorf("line %d gives no reason", i)
				}
			}
		case open != nil && m != nil && m[2] == open[2] && m[3] == "":
			open = nil
		case open != nil:
			blocks[len(blocks)-1].text += strings.TrimPrefix(line, open[1]) + "\n" // a block in a list is indented
		case notRun.MatchString(before):
			return nil, fmt.Errorf("line %d is before no block", i)
		}
		before = line
	}
	if open != nil {
		return nil, fmt.Errorf("a block does not end")
	}
	return blocks, nil
}

// readPages returns the blocks of every page for readers, by its path.
func readPages(t *testing.T) map[string][]block {
	t.Helper()
	out := map[string][]block{}
	source := os.DirFS("../..")
	for _, root := range []string{"README.md", "docs", "deploy"} {
		must(t, fs.WalkDir(source, root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := fs.ReadFile(source, path)
			if err != nil {
				return err
			}
			blocks, err := readBlocks(string(text))
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if len(blocks) > 0 {
				out[path] = blocks
			}
			return nil
		}))
	}
	return out
}

// ours are programs of every machine of this test.
var ours = regexp.MustCompile(`^(sluice|curl|jq|export|cd|cat|echo|mkdir|cp|mv|rm|sleep|grep|openssl|editor|sudo sluice)( |$)`)

// idle returns what is wrong with a block that is not run although every command in it could be: then the reason must
// name what the machine does not have.
func (b block) idle() string {
	for line := range strings.Lines(b.text) {
		if word := strings.TrimLeft(line, "( "); word != "\n" && line == word && word[0] != '#' && !ours.MatchString(strings.TrimSpace(word)) {
			return ""
		}
	}
	if strings.HasPrefix(b.reason, "needs ") {
		return ""
	}
	return fmt.Sprintf("could run here, but is not: %s; type it, or say what it needs", b.reason)
}

func TestReadBlocks(t *testing.T) {
	t.Parallel()
	got, err := readBlocks("a\n```sh\nsluice serve\n```\n1. b\n\n   <!-- not run: needs root -->\n   ```sh\n   apt install x\n     y\n   ```\n```\nplain\n```\n")
	want := []block{{2, "sh", "sluice serve\n", ""}, {8, "sh", "apt install x\n  y\n", "needs root"}, {12, "", "plain\n", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("readBlocks = %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"```sh\nx\n", "<!-- not run: -->\n```sh\nx\n```\n", "<!-- not run: needs root -->\n\n```sh\nx\n```\n"} {
		if got, err := readBlocks(text); err == nil {
			t.Errorf("readBlocks(%q) = %v, want an error", text, got)
		}
	}
	for b, want := range map[block]bool{
		{text: "sluice models\n", reason: "takes long"}:                  true,
		{text: "sluice models\n", reason: "needs an account at Azure"}:   false,
		{text: "sluice models\ncertbot renew\n", reason: "makes a cert"}: false,
	} {
		if got := b.idle(); (got != "") != want {
			t.Errorf("idle(%v) = %q, want a problem: %v", b, got, want)
		}
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a\nb\n": {"a\nb\n"},
		"sluice key create\nsluice key limits KEY_ID\nsluice key list\n": {"sluice key create\n", "sluice key limits KEY_ID\nsluice key list\n"},
		"export KEY=service-…\ncurl \\\n  -H service-…\n":                {"export KEY=service-…\ncurl \\\n  -H service-…\n"},
		"cat <<END\nservice-…\nEND\n":                                    {"cat <<END\nservice-…\nEND\n"},
		"echo '{\n service-…\n}'\n":                                      {"echo '{\n service-…\n}'\n"},
	} {
		if got := pieces(text); !slices.Equal(got, want) {
			t.Errorf("pieces(%q) = %q, want %q", text, got, want)
		}
	}
}
