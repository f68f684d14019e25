package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/kit/buildinfo"
)

// manCmd writes the manual pages, one for each command. Packages include them; people read them with man.
// cobra can write such pages, too, but with another Markdown renderer.
func (p *program) manCmd() *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages into a folder", Args: args("FOLDER"), Hidden: true,
		RunE: func(c *cobra.Command, given []string) error { return writePages(c.Root(), given[0]) },
	}
}

// writePages writes the page of a command and those of its subcommands.
func writePages(c *cobra.Command, dir string) error {
	if !forPeople(c) {
		return nil
	}
	c.InitDefaultHelpFlag()
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(manPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// manPage returns the page of a command in the format of man(7). It has no date, so that it is the same
// for every build of a version.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"sluice %s\" \"Sluice\"\n", strings.ToUpper(roff(name)), buildinfo.Version())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, text)
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	related(&b, c)
	return b.String()
}

// manFlags lists flags under a heading, or nothing if there are none.
func manFlags(b *strings.Builder, heading string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", heading)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		// The usage text names its value between back quotes.
		value, usage := pflag.UnquoteUsage(f)
		flag := "--" + f.Name
		if f.Shorthand != "" {
			flag = "-" + f.Shorthand + ", " + flag
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(flag))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
	})
}

// related names the pages of the command above and of those below.
func related(b *strings.Builder, c *cobra.Command) {
	var pages []string
	if up := c.Parent(); up != nil {
		pages = append(pages, strings.ReplaceAll(up.CommandPath(), " ", "-"))
	}
	for _, sub := range c.Commands() {
		if forPeople(sub) {
			pages = append(pages, strings.ReplaceAll(sub.CommandPath(), " ", "-"))
		}
	}
	if len(pages) == 0 {
		return
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, page := range pages {
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(page), end)
	}
}

// paragraphs writes text whose paragraphs are separated by empty lines. Indented lines keep their form.
func paragraphs(b *strings.Builder, text string) {
	for i, p := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, "  ") {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(p))
			continue
		}
		b.WriteString(roff(p) + "\n")
	}
}

// roff escapes text, so that man shows it as it is: a dash is a minus, for those who copy it, and a line
// that begins with a dot or an apostrophe is no request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
