package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

// root builds the command tree. Errors are printed by run, so cobra stays silent. It must be
// called once per program, because the flags write to its fields.
func (p *program) root() *cobra.Command {
	p.overrides, p.ops = map[string]string{}, admin.Ops()
	cmd := &cobra.Command{
		Use:   "sluice",
		Short: "An inference gateway: many providers behind one OpenAI-compatible API",
		Long: `Sluice gives programs access to language models of many providers behind one
OpenAI-compatible API.

Run "sluice serve" to start it. The other commands manage accounts, keys and
billing. They talk to the server that uses the data folder. If none is running,
they work on the folder directly. With --server and a staff token they talk to a
server somewhere else.

Without --config and --data, commands work on the installation in the working
directory or, if there is none, on the one of this machine: /etc/sluice and
/var/lib/sluice.

Exit codes: 0 done, 1 refused or failed, 2 a mistake in the command line or the
configuration, 3 not found. "sluice help exit-codes" says more.`,
		Args: subcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },

		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// An unknown or malformed flag is a mistake in the command line, like a wrong argument.
	cmd.SetFlagErrorFunc(flagMistake)
	// A command that would act here although another server was named has misunderstood its caller.
	cmd.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := missingFlags(c); err != nil {
			return err
		}
		if p.token != "" && p.setting(p.server, "SLUICE_SERVER") == "" {
			return misused(c, errors.New("--token is for another server: name it with --server"))
		}
		top := c
		for top.Parent() != nil && top.Parent() != cmd {
			top = top.Parent()
		}
		// Its commands work elsewhere, unlike the list of "sluice models" itself.
		if top.Name() == "models" && c != top {
			return nil
		}
		if p.server != "" && slices.Contains(hereOnly(), top.Name()) {
			return misused(c, fmt.Errorf("%s works only on the machine of the server, without --server", top.Name()))
		}
		return nil
	}
	// These flags apply to every command.
	flags := cmd.PersistentFlags()
	flags.StringVar(&p.configPath, "config", "", "configuration `file` (default ./sluice.yaml, or /etc/sluice/sluice.yaml if there is nothing here)")
	flags.BoolVar(&p.asJSON, "json", false, "print JSON")
	flags.StringVar(&p.server, "server", "", "`address` of another server, such as https://api.example.com (or SLUICE_SERVER)")
	flags.StringVar(&p.token, "token", "", "staff `token` for --server; better in SLUICE_TOKEN, because other users of the machine see arguments")
	// --data is an override because commands must find the folder of the server that they talk to.
	p.override(flags, "data", "data", "`folder` for all data (default ./data, or /var/lib/sluice if there is nothing here)")
	// cobra sorts the commands by name in the help.
	cmd.AddCommand(p.serveCmd(), p.demoCmd(), p.accountCmd(), p.keyCmd(), p.budgetCmd(), p.signInLinkCmd(), p.tokenCmd(), p.billingCmd(), p.ticketCmd(), p.matterCmd(), p.usageCmd(), p.receiptCmd(), p.pricesCmd(), p.whatIfCmd(), p.requestCmd(), p.auditCmd(), p.reconcileCmd(), p.backupCmd(), p.restoreCmd(), p.migrateCmd(), p.journalCmd(), p.alertCmd(), p.resetSecretCmd(), p.overviewCmd(), p.modelsCmd(), p.upstreamCmd(), p.routerCmd(), p.maintenanceCmd(), p.announceCmd(), p.incidentCmd(), p.videoCmd(), p.doctorCmd(), p.readyCmd(), p.debugCmd(), p.configCmd(), p.upgradeCmd(), p.versionCmd(), p.docsCmd(), p.manCmd(), p.referenceCmd(), exitCodesTopic())
	cmd.SetHelpCommand(helpCmd())
	sortCommands(cmd)
	return cmd
}

// hereOnly returns the commands that work on this machine alone.
func hereOnly() []string {
	return []string{"serve", "demo", "backup", "restore", "migrate", "journal", "reset-secret", "models", "video", "doctor", "debug", "config", "upgrade", "docs", "man", "reference"}
}

// override adds a flag that sets a field of the configuration. The value is checked by
// config.Load, so that flags, variables and the file give the same messages.
func (p *program) override(flags *pflag.FlagSet, name, path, usage string) {
	flags.Var(&overrideFlag{p.overrides, path}, name, usage)
}

// overrideFlag is a pflag.Value that stores the flag's text under a configuration path. Only
// flags that are given leave an entry.
type overrideFlag struct {
	to   map[string]string
	path string
}

// Set, String and Type implement pflag.Value. String is the default that the help would show; the usage
// texts name the defaults instead, because they come from the configuration.
func (f *overrideFlag) Set(v string) error { f.to[f.path] = v; return nil }
func (f *overrideFlag) String() string     { return "" }
func (f *overrideFlag) Type() string       { return "value" }

// errSilent makes the command fail without a message, because everything has been printed
// already. doctor and audit use it: their findings are the output, and the exit code is for scripts.
var errSilent = errors.New("")

// usageError is a mistake in the command line. It leads to exit code 2 and a hint to --help.
// A refusal by the server is not a usageError, even if it is about an argument.
type usageError struct {
	err     error
	command string // the path of the command, such as "sluice key create"
}

// Error includes a hint to the help of the command, not of the whole program.
func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nRun \"%s --help\" for usage.", e.err, e.command)
}

// misused returns err as a usageError of the command, for mistakes that cobra cannot find.
func misused(c *cobra.Command, err error) error { return &usageError{err, c.CommandPath()} }

// args checks the number of arguments. Unlike cobra's own checks it names the missing ones.
// The names are those that the usage line shows, so that people recognize them.
func args(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if len(given) < len(names) {
			// "ID is missing", but "ID and PLAN are missing".
			verb := "is"
			if len(names)-len(given) > 1 {
				verb = "are"
			}
			return misused(c, fmt.Errorf("%s %s missing", strings.Join(names[len(given):], " and "), verb))
		}
		if len(given) > len(names) {
			return misused(c, fmt.Errorf("unexpected %q", given[len(names)]))
		}
		return nil
	}
}

// optional accepts zero arguments or one. name is what the usage line calls it.
func optional(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if len(given) == 0 {
			return nil
		}
		return args(name)(c, given)
	}
}

// takes makes a command check its arguments by the names in its usage line, unless it has a check of its own. A name in
// brackets may be left out, and what follows a flag is its value.
func takes(cmd *cobra.Command) {
	if cmd.Args != nil {
		return
	}
	var names []string
	cmd.Args = args()
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		name, _, _ := strings.Cut(word, "|")
		switch {
		case strings.Contains(word, "--") || i > 0 && strings.Contains(words[i-1], "--"):
		case strings.HasPrefix(name, "["):
			cmd.Args = optional(strings.Trim(name, "[]"))
		default:
			name, _, _ = strings.Cut(name, "[")
			names = append(names, name)
			cmd.Args = args(names...)
		}
	}
}

// explain returns the exit code and the message for an error. With --json, an error of the
// server is printed as the same error object that the API uses.
func (p *program) explain(err error) (int, string) {
	code := exitCode(err)
	if errors.Is(err, errSilent) {
		return code, ""
	}
	// Mistakes in the command line are never JSON: a person has to fix them.
	if u, ok := errors.AsType[*usageError](err); ok {
		return code, "sluice: " + u.Error()
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && p.asJSON {
		// A map of strings and numbers always encodes. The form is that of docs/api.md#error-object.
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": f.Message, "type": f.Kind.String(), "code": f.Kind.Status()}})
		return code, string(body)
	}
	return code, "sluice: " + err.Error()
}

// actor returns who runs this command, for the audit log. Whoever may use the admin socket
// could set USER to anything, so the name is a help for people and proves nothing.
func (p *program) actor() string {
	// Login shells set USER; services and containers may lack it.
	return "cli:" + cmp.Or(p.variable("USER"), "uid "+strconv.Itoa(os.Getuid()))
}
