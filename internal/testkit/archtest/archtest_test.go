package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rules holds every rule by the name of its subtest. A new rule needs a row here and cases in the test
// below.
var rules = []struct {
	name  string
	check func(*tree) []string
}{
	{"imports", checkImports},
	{"docs", checkDocs},
	{"citations", checkCitations},
	{"links", checkLinks},
	{"guides", checkGuides},
	{"names", checkNames},
	{"globals", checkGlobals},
	{"loops", checkLoops},
	{"texts", checkTexts},
	{"length", checkLength},
	{"sleeps", checkSleeps},
	{"deadlines", checkDeadlines},
}

func TestRepository(t *testing.T) {
	t.Parallel()
	tree, err := load(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	if tree.packages["internal/testkit/archtest"] == nil {
		t.Fatal("the rules do not see the repository: internal/testkit/archtest is not among its packages")
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, problem := range rule.check(tree) {
				t.Error(problem)
			}
		})
	}
}

// TestRules runs each rule on code that breaks it and on code that it must accept: a rule
// that accepts wrong code is worth nothing.
func TestRules(t *testing.T) {
	t.Parallel()
	const doc = "// Package x does one thing, and this sentence is here to be long enough.\n"
	for _, tt := range []struct {
		name  string
		rule  func(*tree) []string
		files map[string]string
		want  []string // one piece of each problem, in order
	}{
		{
			name: "loops",
			rule: checkLoops,
			files: map[string]string{
				"internal/a/a.go": "package a\n\nimport \"database/sql\"\n\nfunc good(rows *sql.Rows) error {\nfor rows.Next() {\n}\nreturn rows.Err()\n}\n\nfunc bad(rows *sql.Rows) error {\nfor rows.Next() {\n}\nreturn rows.Close()\n}",
				"internal/b/b.go": "package b\n\nimport \"bufio\"\n\nfunc good(s *bufio.Scanner) {\nfor s.Scan() {\n}\nif s.Err() != nil {\n}\n}\n\nfunc bad(s, other *bufio.Scanner) error {\nfor s.Scan() {\n}\nreturn other.Err()\n}",
				"internal/c/c.go": "package c\n\ntype list struct{}\n\nfunc (list) Next() bool { return false }\n\nfunc other(l list) {\nfor l.Next() {\n}\n}",
			},
			want: []string{
				"internal/a/a.go:12:1: the loop over rows never asks rows.Err()",
				"internal/b/b.go:13:1: the loop over s never asks s.Err()",
			},
		},
		{
			name: "rooms",
			rule: checkImports,
			files: map[string]string{
				"internal/kit/fault/a.go":                "package fault\n\nimport _ \"sluice/internal/prompt/chat\"",
				"internal/prompt/chat/a.go":              "package chat\n\nimport (\n_ \"sluice/internal/kit/fault\"\n_ \"sluice/internal/account\"\n)",
				"internal/prompt/chat/a_test.go":         "package chat\n\nimport _ \"sluice/internal/app\"",
				"internal/account/a.go":                  "package account",
				"internal/newcomer/a.go":                 "package newcomer",
				"internal/store/sqlstore/a.go":           "package sqlstore\n\nimport _ \"sluice/internal/store/sqlstore/migrations\"\nimport _ \"sluice/internal/ledger/usage\"",
				"docs/a.go":                              "package docs\n\nimport _ \"sluice/internal/kit/fault\"",
				"internal/app/a.go":                      "package app\n\nimport _ \"sluice/docs\"\nimport _ \"sluice/internal/store/sqlstore\"\nimport _ \"sluice/internal/upstream/provider/openai\"\nimport _ \"sluice/internal/app/config\"",
				"internal/app/start/a.go":                "package start\n\nimport _ \"sluice/internal/app/config\"\nimport _ \"sluice/internal/app\"",
				"internal/storetest/a.go":                "package storetest\n\nimport _ \"sluice/internal/store/sqlstore\"\nimport _ \"sluice/internal/testkit/pgtest\"",
				"cmd/sluice/main.go":                     "package main\n\nimport _ \"sluice/internal/app\"\nimport _ \"sluice/internal/app/config\"",
				"tools/testrun/main.go":                  "package main\n\nimport _ \"sluice/internal/testkit/pgtest\"",
				"oracles/go.mod":                         "module sluice/oracles",
				"oracles/a.go":                           "package oracles\n\nimport _ \"sluice/internal/testkit/pgtest\"",
				"internal/prompt/chat/testdata/a.go":     "package broken {",
				"internal/api/httpapi/a.go":              "package httpapi\n\nimport _ \"sluice/api\"\nimport _ \"sluice/tools/testrun\"",
				"internal/upstream/provider/openai/a.go": "package openai\n\nimport _ \"sluice/internal/upstream/provider\"\nimport _ \"sluice/internal/upstream/provider/openai/wire\"",
			},
			want: []string{
				"docs/a.go imports internal/kit/fault: api and docs describe the product",
				"internal/api/httpapi/a.go imports tools/testrun: only packages below internal/",
				"internal/kit/fault/a.go imports internal/prompt/chat: its room is above this one",
				"package internal/newcomer is in no room",
				"internal/prompt/chat/a.go imports internal/account: its room is above this one",
			},
		},
		{
			name: "what only app may import",
			rule: checkImports,
			files: map[string]string{
				"api/api.go":                             "package api\n\nimport _ \"sluice/internal/kit/fault\"",
				"api/gen/main.go":                        "package main\n\nimport _ \"sluice/api/gen/render\"",
				"internal/line/inference/a.go":           "package inference\n\nimport _ \"sluice/internal/store/sqlstore\"",
				"internal/account/mail/a.go":             "package mail\n\nimport _ \"sluice/internal/app/config\"",
				"internal/upstream/provider/gemini/a.go": "package gemini\n\nimport _ \"sluice/internal/upstream/provider/openai\"",
				"internal/line/relay/a.go":               "package relay\n\nimport _ \"sluice/internal/testkit/pgtest\"",
				"internal/video/a.go":                    "package video\n\nimport _ \"sluice/internal/upstream/provider/openai\"",
				"sandbox/clips/a.go":                     "package clips\n\nimport _ \"sluice/internal/video\"\nimport _ \"sluice/sandbox/clips/mp4\"",
				"sandbox/models/a.go":                    "package models\n\nimport _ \"sluice/internal/upstream/provider\"\nimport _ \"sluice/internal/kit/fault\"\nimport _ \"sluice/internal/upstream/provider/openai\"",
				"internal/web/front/a.go":                "package front\n\nimport _ \"sluice/internal/store/sqlstore\"\nimport _ \"sluice/sandbox/clips\"",
				"internal/store/installation/a.go":       "package installation\n\nimport _ \"sluice/internal/store/sqlstore\"\nimport _ \"sluice/internal/video/blob\"",
				"internal/app/settings/a.go":             "package settings\n\nimport _ \"sluice/sandbox/clips\"",
			},
			want: []string{
				"api/api.go imports internal/kit/fault: api and docs describe the product",
				"internal/account/mail/a.go imports internal/app/config: its room is above this one",
				"internal/line/inference/a.go imports internal/store/sqlstore: its room is above this one",
				"internal/line/relay/a.go imports internal/testkit/pgtest: test support",
				"internal/upstream/provider/gemini/a.go imports internal/upstream/provider/openai: only app imports adapters",
				"internal/video/a.go imports internal/upstream/provider/openai: only app imports adapters",
				"internal/web/front/a.go imports internal/store/sqlstore: only app imports the store",
				"internal/web/front/a.go imports sandbox/clips: only app imports the sandbox",
				"sandbox/clips/a.go imports internal/video: the sandbox knows the interface",
				"sandbox/models/a.go imports internal/upstream/provider/openai: the sandbox knows the interface",
			},
		},
		{
			name: "package comments",
			rule: checkDocs,
			files: map[string]string{
				"internal/x/a.go":      doc + "package x",
				"internal/x/b.go":      "package x",
				"internal/none/a.go":   "package none",
				"internal/short/a.go":  "// Package short is short.\npackage short",
				"internal/wrong/a.go":  "// This package does one thing, and this sentence is here to be long enough.\npackage wrong",
				"cmd/tool/main.go":     "// Package main does one thing, and this sentence is here to be long enough.\npackage main",
				"cmd/good/main.go":     "// Command good does one thing, and this sentence is here to be long enough.\npackage main",
				"internal/t/a_test.go": "package t",
			},
			want: []string{
				`cmd/tool must begin with "Command tool "`,
				"package internal/none has no package comment",
				"package internal/short is too short",
				`internal/wrong must begin with "Package wrong "`,
			},
		},
		{
			name: "citations",
			rule: checkCitations,
			files: map[string]string{
				"docs/a.md": "# A page\n## `service/auto`, twice\n## Limits\n### Limits\n```sh\n# no heading\n```\n",
				"internal/x/a.go": "package x\n\n// docs/a.md, docs/a.md#a-page and docs/a.md#serviceauto-twice are right.\n\n// So are docs/a.md#limits, docs/a.md#limits-1.\n\n" +
					"var s = \"docs/none.md\"\n\n// docs/a.md#no-heading\n// docs/b.md#limits\n// sp" + "ec: Limits\n",
				"internal/x/a_test.go": "package x\n\nfunc f() {} // docs/a.md#limits-2\n",
			},
			want: []string{
				"internal/x/a.go:9:1: docs/a.md has no heading #no-heading",
				"internal/x/a.go:10:1: docs/b.md does not exist",
				"internal/x/a.go:11:1: \"sp" + "ec:\" cites a document that is not in the repository",
				"internal/x/a_test.go:3:13: docs/a.md has no heading #limits-2",
			},
		},
		{
			name: "links",
			rule: checkLinks,
			files: map[string]string{
				"README.md":    "[a](docs/a.md) [web](https://example.com/x.md#y) [gone](docs/gone.md)\n",
				"docs/a.md":    "# One\n[b](b/c.md#two), [here](#one)\n[no](#two) [no](b/c.md#one)\n",
				"docs/b/c.md":  "# Two\n[up](../a.md#one) ![](x.png) ![](y.png) [](../b)\n<source srcset=\"x.png\"><img src=\"gone.png\">\n",
				"docs/b/y.png": "\x00",
			},
			want: []string{
				"README.md:1: the link (docs/gone.md)", "docs/a.md:3: the link (#two)", "docs/a.md:3: the link (b/c.md#one)",
				"docs/b/c.md:2: the link (x.png)", "docs/b/c.md:3: the link (x.png)", "docs/b/c.md:3: the link (gone.png)",
			},
		},
		{
			name: "guides",
			rule: checkGuides,
			files: map[string]string{
				"CONTRIBUTING.md":      "`internal/a/a.go`, `a/a.go`, `a.go`, `testdata/*.txtar`\n`b/b.go`\n",
				"docs/architecture.md": "`a/gone.go` and `a/a.go`\n",
				"docs/other.md":        "`a/gone.go`\n",
				"internal/a/a.go":      "package a",
			},
			want: []string{"CONTRIBUTING.md:2: there is no b/b.go", "docs/architecture.md:1: there is no a/gone.go"},
		},
		{
			name: "names",
			rule: checkNames,
			files: map[string]string{
				"internal/common/a.go":   "package common",
				"internal/x/a.go":        "package x\n\ntype KeyManager struct{}\n\ntype key struct{}\n\nfunc (key) GetName() {}\n\nfunc Getting() {}\n\nfunc GetKey() {}",
				"internal/x/a_test.go":   "package x\n\nfunc GetTest() {}",
				"internal/x/gen.go":      "// Code generated by hand. DO NOT EDIT.\n\npackage x\n\nfunc GetGenerated() {}",
				"internal/x/database.go": "package x",
			},
			want: []string{
				`package internal/common: "common" says nothing`,
				"internal/x/a.go:3:6: type KeyManager",
				"internal/x/a.go:7:12: GetName: drop the Get",
				"internal/x/a.go:11:6: GetKey: drop the Get",
			},
		},
		{
			name: "globals",
			rule: checkGlobals,
			files: map[string]string{
				"internal/x/a.go": "package x\n\nimport \"embed\"\n\nfunc init() {}\n\nvar ErrGone = 1\n\nvar small, Big int\n\n" +
					"//go:embed files\nvar Files embed.FS\n\nvar (\n\t//go:embed text\n\tText string\n)\n\nfunc f() { var Local int; _ = Local }\n\ntype s struct{}\n\nfunc (s) init() {}",
			},
			want: []string{
				"internal/x/a.go:5:6: func init",
				"internal/x/a.go:9:12: exported variable Big",
			},
		},
		{
			name: "texts",
			rule: checkTexts,
			files: map[string]string{
				"docs/a.md":           "fine\nsee /wor" + "k/main\n",
				"docs/b.md":           "a frame/wor" + "k/x and example.com/roo" + "t/x are fine\n",
				"docs/c.yaml":         "path: /roo" + "t/x\n",
				"Makefile":            "GOPROXY=https://proxy." + "golang.org\n",
				".ci/run":             "curl https://deb." + "debian.org\n",
				"oracles/node/.npmrc": "registry=https://registry." + "npmjs.org\n",
				"oracles/node/node_modules/x/package.json": "registry." + "npmjs",
				"data/x":     "/roo" + "t/x\n",
				"docs/a.png": "\x00/roo" + "t/x\n",
			},
			want: []string{".ci/run:1", "Makefile:1", "docs/a.md:2", "docs/c.yaml:1", "oracles/node/.npmrc:1"},
		},
		{
			name: "length",
			rule: checkLength,
			files: map[string]string{
				"internal/x/long.go":      "package x\n" + strings.Repeat("\n", longest),
				"internal/x/most.go":      "package x\n" + strings.Repeat("\n", longest-1),
				"internal/x/long_test.go": "package x\n" + strings.Repeat("\n", longest),
				"internal/x/gen.go":       "// Code generated by hand. DO NOT EDIT.\n\npackage x\n" + strings.Repeat("\n", longest),
			},
			want: []string{"internal/x/long.go has 701 lines"},
		},
		{
			name: "sleeps",
			rule: checkSleeps,
			files: map[string]string{
				"internal/x/a.go": "package x\n\nfunc f() { time.Sleep(1) }",
				"internal/x/a_test.go": "package x\n\nfunc f() {\n\ttime.Sleep(1)\n\ttime.Sleep(1) // the bubble's clock\n\tgo func() { <-time.After(1) }()\n" +
					"\tselect {\n\tcase <-time.After(1):\n\t\t<-time.After(2)\n\tcase <-done:\n\t}\n}",
				"internal/x/b_test.go":          "package x\n\nfunc f() { synctest.Test(t, func() { time.Sleep(1) }) }\n\nfunc g() { f(func() { time.Sleep(1) }) }",
				"internal/x/testdata/c_test.go": "package x\n\nfunc f() { time.Sleep(1) }",
				"oracles/go.mod":                "module sluice/oracles",
				"oracles/a_test.go":             "package oracles\n\nfunc f() { <-time.After(1) }",
			},
			want: []string{"internal/x/a_test.go:4:2", "internal/x/a_test.go:6:14", "internal/x/a_test.go:9:3", "oracles/a_test.go:3:12"},
		},
		{
			name: "deadlines",
			rule: checkDeadlines,
			files: map[string]string{
				"internal/a/a.go":                   "package a\n\nimport \"database/sql\"\n\nvar x *sql.DB\n\nfunc f(p pool) { p.db.Ping() }",
				"internal/a/a_test.go":              "package a\n\nimport \"database/sql\"\n\nvar x *sql.DB",
				"internal/store/sqlstore/pool.go":   "package sqlstore\n\nimport \"database/sql\"\n\nvar x *sql.DB",
				"internal/store/sqlstore/things.go": "package sqlstore\n\nimport \"database/sql\"\n\nfunc f() {\n\ttx(func(ctx context.Context, tx *sql.Tx) error { return nil })\n\ttx(func(tx *sql.Tx) error { return nil })\n\ttx(func(_ context.Context, tx *sql.Tx) error { return nil })\n}",
				"internal/b/b.go":                   "package b\n\nfunc f(p pool) { p.db.Ping() }",
			},
			want: []string{"internal/a/a.go:5:8", "internal/a/a.go:7:18", "internal/store/sqlstore/things.go:7:5", "internal/store/sqlstore/things.go:8:5"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for name, text := range tt.files {
				name = filepath.Join(root, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := load(root)
			if err != nil {
				t.Fatal(err)
			}
			got := tt.rule(tree)
			if len(got) != len(tt.want) {
				t.Fatalf("problems = %q, want %d of them", got, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %d = %q, want %q in it", i, got[i], want)
				}
			}
		})
	}
}
