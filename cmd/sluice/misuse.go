package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		return misused(c, fmt.Errorf("there is no flag %s%s", dashes, name))
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
