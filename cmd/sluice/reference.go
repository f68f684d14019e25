package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate sh -c "go run . reference > ../../docs/cli.md.new && mv ../../docs/cli.md.new ../../docs/cli.md"
//go:generate go run ../../tools/errorpage ../..

// commandGroups are the groups of commands in the help and in docs/cli.md, in order. A command that none of them has is shown
// last.
var commandGroups = []struct{ title, commands string }{
	{"Start and check", "serve ready doctor config models docs demo upgrade version debug exit-codes"},
	{"Accounts and keys", "account key budget signin-link usage whatif request receipt token"},
	{"Run the service", "overview upstream router maintenance announce incident alert"},
	{"Money and support", "billing prices reconcile ticket matter video"},
	{"Look after the data", "backup restore migrate journal audit reset-secret"},
}

// sortCommands puts the commands of the program into their groups.
func sortCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// referenceCmd prints the page of all commands, docs/cli.md.
func (p *program) referenceCmd() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print the reference of all commands as Markdown", Args: args(), Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error { return p.write(cliPage(c.Root())) },
	}
}

// cliPage returns docs/cli.md.
func cliPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n<!-- Written by go generate ./cmd/sluice. -->\n\n")
	fmt.Fprintf(&b, "%s\n", root.Long)
	b.WriteString("\n## Flags of every command\n\n")
	flagTable(&b, root.PersistentFlags())
	groups := commandGroups
	for _, c := range root.Commands() {
		if c.GroupID == "" && forPeople(c) {
			groups = append(slices.Clip(groups), struct{ title, commands string }{title: "More"})
			break
		}
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n", g.title)
		for _, c := range root.Commands() {
			if forPeople(c) && cmp.Or(c.GroupID, "More") == g.title {
				commandEntry(&b, c)
			}
		}
	}
	return b.String()
}

// forPeople reports whether a command is in the reference and has a manual page. Hidden ones, and those that cobra adds, are not.
func forPeople(c *cobra.Command) bool {
	return !c.Hidden && c.Name() != "help" && c.Name() != "completion"
}

// commandEntry writes the entry of a command and of those below it.
func commandEntry(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n%s.\n", c.CommandPath(), c.Short)
	if c.HasSubCommands() && !c.HasLocalFlags() && c.Long == "" {
		b.WriteString("\n| command | what it does |\n|---|---|\n")
		for _, sub := range c.Commands() {
			if forPeople(sub) {
				fmt.Fprintf(b, "| `%s` | %s |\n", cell(strings.TrimSuffix(sub.UseLine(), " [flags]")), cell(sub.Short))
			}
		}
	} else if c.Runnable() {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", c.UseLine())
	}
	if _, more, ok := strings.Cut(c.Long, "\n\n"); ok {
		fmt.Fprintf(b, "\n%s\n", indented(more))
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n")
		flagTable(b, c.LocalNonPersistentFlags())
	}
	if text := example(c); text != "" {
		fmt.Fprintf(b, "\nFor example:\n\n```text\n%s\n```\n", text)
	}
	for _, sub := range c.Commands() {
		if forPeople(sub) {
			commandEntry(b, sub)
		}
	}
}

// samples are what the examples have for the names in usage lines.
var samples = map[string]string{
	"ID": "ana@example.com", "ID|E-MAIL": "ana@example.com", "E-MAIL": "ana@example.com", "E": "ana@example.com", "WHO": "ana@example.com", "PLAN": "basic", "TIER": "premium",
	"KEYID": "key_7X…", "BUDGET": "bud_7X…", "TOKENID": "tok_7X…", "TICKET": "mat_7X…", "DELIVERYID": "dlv_7X…", "PAYMENT": "pay_7x…",
	"MODEL": "sandbox/small", "MODEL...": "sandbox/small", "NAME=MODEL…": "gpt-4=sandbox/small", "PROVIDER[/UPSTREAM]": "lab", "NAME": "laptop", "N": "100", "R": "'asked for by mail'", "T": "'Thank you.'", "S": "'Your question'",
	"TEXT": "'Maintenance tonight at 22:00 UTC'", "TERM": "ana", "DATE": "2027-01-31", "DECISION": "clear", "DIR": "/mnt/lost/data", "FOLDER": "/backup/sluice", "BACKUP": "/backup/sluice", "PROMPT": "'a lighthouse at dusk'",
	"yes|no": "yes", "S...": "accounts:read", "SECTION": "providers",
	// What a word means in one place only: behind a flag, or in a command.
	"--name N": "laptop", "announce end ID": "ord_7X…", "maintenance end ID": "ord_7X…", "incident delete ID": "inc_7X…", "incident show ID": "inc_7X…", "account note TEXT": "'called about the invoice'",
}

// example returns the examples of a command. One that has none of its own gets its usage line with samples; a usage line without
// names is its own example.
func example(c *cobra.Command) string {
	if c.Example != "" {
		return strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n")
	}
	words := strings.Fields(strings.TrimSuffix(c.UseLine(), " [flags]"))
	filled := false
	for i, w := range words {
		plain := strings.Trim(w, "[]")
		inPlace := strings.TrimPrefix(c.CommandPath(), "sluice ") + " " + plain
		sample := cmp.Or(samples[words[max(0, i-1)]+" "+plain], samples[inPlace], samples[w], samples[plain])
		words[i], filled = cmp.Or(sample, plain), filled || sample != ""
	}
	if !filled {
		return ""
	}
	return strings.Join(words, " ")
}

// indented returns a text whose indented paragraphs are blocks of code, as they are in Markdown with more indentation.
func indented(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n  ", "\n      "), "\n")
}

// flagTable writes the flags of a command as a table.
func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | what it does |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "| `%s` | %s |\n", cell(strings.TrimSpace("--"+f.Name+" "+value)), cell(usage))
	})
}

// cell escapes a text for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}
