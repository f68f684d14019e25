package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/kit/typo"
)

// A mistake in the command line is told in our own words: those of cobra and pflag name functions of Go's library.

// group returns a command that only groups others.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(commands...)
	return cmd
}

// subcommand is the Args of a command that only groups others. It refuses a word that is none of them.
func subcommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	// cobra counts letters that differ, and words that begin alike.
	c.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("there is no command %q", c.CommandPath()+" "+given[0])
	if near := c.SuggestionsFor(given[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", c.CommandPath()+" "+near[0])
	}
	return misused(c, errors.New(text))
}

// flagMistake returns what is wrong with a flag.
func flagMistake(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return misused(c, fmt.Errorf("there is no flag %s%s%s", dashes, name, nearFlag(c, cmp.Or(unknown.GetSpecifiedShortnames(), name))))
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return misused(c, fmt.Errorf("--%s needs a value", empty.GetFlag().Name))
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := wrong.GetFlag()
		// The types of our own, such as limits, say what they expect.
		what, known := map[string]string{
			"int": "a whole number", "int64": "a whole number", "bool": "true or false", "duration": "a time such as 30s, 10m or 168h", "float64": "a number",
		}[f.Value.Type()]
		if known {
			return misused(c, fmt.Errorf("--%s needs %s, not %q", f.Name, what, wrong.GetValue()))
		}
		return misused(c, fmt.Errorf("--%s: %w", f.Name, errors.Unwrap(wrong)))
	}
	return misused(c, err)
}

// nearFlag suggests the flag that is meant by a name that no flag has, or by a long name after a single dash.
func nearFlag(c *cobra.Command, name string) string {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	return typo.DidYouMean("--"+name, flags)
}

// helpCmd replaces the help command of cobra, which succeeds for commands that do not exist.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command",
		Long: "Explain a command, or a topic such as exit-codes.",
		RunE: func(c *cobra.Command, given []string) error {
			found, rest, err := c.Root().Find(given)
			if err != nil {
				return misused(c, err)
			}
			if len(rest) > 0 {
				return subcommand(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// addCompletion adds the command that prints completions for shells, to where the output of root goes now. It works but does
// not need a line in the help.
func addCompletion(root *cobra.Command) {
	root.CompletionOptions.HiddenDefaultCmd = true
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = subcommand, needsSubcommand
		for _, shell := range c.Commands() {
			shell.Args = args()
		}
	}
}

// missingFlags returns an error that names the required flags that were not given.
func missingFlags(c *cobra.Command) error {
	var missing []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && slices.Equal(f.Annotations[cobra.BashCompOneRequiredFlag], []string{"true"}) {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return misused(c, fmt.Errorf("%s is missing", missing[0]))
	}
	return misused(c, fmt.Errorf("%s are missing", strings.Join(missing, " and ")))
}
