package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/runaway"
	"sluice/internal/operate/admin"
)

// budgetCmd groups the commands about budgets (docs/api.md#budgets).
func (p *program) budgetCmd() *cobra.Command {
	of, gone, resumed := &admin.AccountPage{}, &admin.BudgetRef{}, &admin.KeyToResume{}
	return group("budget", "List, set and delete the budgets of accounts",
		lists(p, &cobra.Command{Use: "list ID|E-MAIL", Short: "List the budgets of an account, and what is spent of them"}, p.ops.BudgetList, of, budgetColumns(), &of.Ref),
		p.budgetSetCmd(),
		mayReason(does(p, &cobra.Command{
			Use: "delete ID|E-MAIL BUDGET", Short: "Delete a budget of an account",
			Long: "Delete a budget of an account. Calls no longer count against it, and what was spent of\nit is forgotten.",
		}, p.ops.BudgetDelete, gone, func(w io.Writer, d *admin.DeletedBudget) {
			fmt.Fprintf(w, "Deleted budget %s.\n", d.ID)
		}, &gone.Ref, &gone.ID), &gone.Reason),
		p.budgetWatchCmd(),
		mayReason(does(p, &cobra.Command{
			Use: "resume ID|E-MAIL KEYID", Short: "Let the calls of a key pass again that the runaway watch has paused",
			Long: "Let the calls of a key pass again that the runaway watch has paused. It is paused again\nonly if its program runs away from now on.",
		}, p.ops.BudgetResume, resumed, printWatch, &resumed.Ref, &resumed.Key), &resumed.Reason))
}

// budgetWatchCmd changes what is done about programs that run away (docs/teams/budgets.md#the-runaway-watch).
func (p *program) budgetWatchCmd() *cobra.Command {
	in := admin.WatchOrder{}
	var on string
	var factor int
	cmd := does(p, &cobra.Command{
		Use: "watch ID|E-MAIL [--on-runaway alert|pause|off] [--factor N]", Short: "Change what is done about programs of an account that run away",
		Long: `Change what is done about programs of an account that run away, and show which of its
keys are paused. Without a flag, nothing changes.

A program runs away if it sends the same prompt again and again, if its conversation grows
evenly to a long one, or if its key spends more in ten minutes, by the hour, than --factor
times what it did in the busiest hour of the last seven days. With alert, the owner of the
account gets a mail and webhooks an event; with pause, calls of the key are refused as
well until somebody resumes it.`,
		Example: "  sluice budget watch ana@example.com --on-runaway pause --factor 3",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("on-runaway") {
				in.OnRunaway = (*account.OnRunaway)(&on)
			}
			if c.Flags().Changed("factor") {
				in.Factor = &factor
			}
			return nil
		},
	}, p.ops.BudgetWatch, &in, printWatch, &in.Ref)
	cmd.Flags().StringVar(&on, "on-runaway", "", "`action`: alert, pause or off")
	cmd.Flags().IntVar(&factor, "factor", 0, "`times` the busiest hour of the last week that a key may spend in an hour")
	return mayReason(cmd, &in.Reason)
}

// printWatch shows what is done about programs that run away, and which keys are paused.
func printWatch(w io.Writer, r *runaway.Record) {
	switch r.OnRunaway {
	case account.Off:
		fmt.Fprintln(w, "Nobody watches for programs that run away.")
	case account.Pause:
		fmt.Fprintf(w, "Keys whose programs run away are paused. Spending counts as unusual at %d times the busiest hour of the last week.\n", r.Factor)
	default:
		fmt.Fprintf(w, "The owner is told of programs that run away. Spending counts as unusual at %d times the busiest hour of the last week.\n", r.Factor)
	}
	for i := range r.Paused {
		k, name := &r.Paused[i], "master key"
		if k.Name != nil {
			name = *k.Name
		}
		fmt.Fprintf(w, "Paused: %s (%s) since %s. %s\n", k.Key, name, timeText(&k.PausedAt), k.Seen)
	}
	if len(r.Paused) == 0 {
		fmt.Fprintln(w, "No key is paused.")
	}
}

// budgetFlags are the flags of "sluice budget set".
type budgetFlags struct {
	name, amount, window, timezone, marks, key, tag string
	eachSession, account, soft                      bool
}

// budgetSetCmd makes a budget, or changes one.
func (p *program) budgetSetCmd() *cobra.Command {
	in, f := admin.BudgetOrder{}, budgetFlags{}
	cmd := does(p, &cobra.Command{
		Use: "set ID|E-MAIL --name N --amount DOLLARS --window W", Short: "Make a budget of an account, or change one",
		Long: `Make a budget of an account, or change the one in --id.

A call that could cost more than is left of a budget is refused, unless the budget is
--soft: then people are only told. A window is day, week, month, rolling_24h,
rolling_30d or total, which never ends. Days, weeks and months begin in --timezone.

A budget is for all calls of the account, or for those of one --key, for those with a
--tag, or for each session apart: --each-session, with --key for those of one key. With
--id, a flag that is not given changes nothing, and what the budget is for stays as it
is.`,
		Example: "  sluice budget set ana@example.com --name all --amount 50 --window month --timezone Europe/Paris\n" +
			"  sluice budget set ana@example.com --name agents --amount 2.50 --window total --each-session\n" +
			"  sluice budget set ana@example.com --name night --amount 1 --window total --each-session --key key_…\n" +
			"  sluice budget set ana@example.com --id bud_… --amount 80 --soft",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if err := f.apply(c, &in); err != nil {
				return misused(c, err)
			}
			return nil
		},
	}, p.ops.BudgetSet, &in, func(w io.Writer, r *budget.Record) {
		done := "Made"
		if in.ID != "" {
			done = "Changed"
		}
		fmt.Fprintf(w, "%s budget %s (%s): $%s, %s, for %s.\n", done, r.ID, r.Name, r.Amount, windowText(r), scopeText(&r.Scope))
	}, &in.Ref)
	f.add(cmd)
	cmd.Flags().StringVar(&in.ID, "id", "", "`id` of the budget to change")
	return mayReason(cmd, &in.Reason)
}

// add adds the flags to a command.
func (f *budgetFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "`name` of the budget")
	cmd.Flags().StringVar(&f.amount, "amount", "", "`dollars` that calls may cost in the window, such as 12.50")
	cmd.Flags().StringVar(&f.window, "window", "", "`window`: day, week, month, rolling_24h, rolling_30d or total")
	cmd.Flags().StringVar(&f.timezone, "timezone", "", "`zone` in which days, weeks and months begin, such as Europe/Paris (default UTC)")
	cmd.Flags().StringVar(&f.key, "key", "", "the budget is for calls of the key with this `id`")
	cmd.Flags().StringVar(&f.tag, "tag", "", "the budget is for calls with this `tag`, such as team=search")
	cmd.Flags().BoolVar(&f.eachSession, "each-session", false, "each session has the amount for itself; with --key, those of the key")
	cmd.Flags().BoolVar(&f.account, "account", false, "the budget is for all calls of the account; the default")
	cmd.Flags().BoolVar(&f.soft, "soft", false, "only tell people, and refuse no call")
	cmd.Flags().StringVar(&f.marks, "marks", "", "`percentages` at which people are told, separated by commas, or none (default 50,80,100)")
}

// apply writes what was given into an order. What is wrong with a value is said by the server.
func (f *budgetFlags) apply(c *cobra.Command, in *admin.BudgetOrder) error {
	given := c.Flags().Changed
	for name, to := range map[string]struct {
		value *string
		place **string
	}{"name": {&f.name, &in.Name}, "amount": {&f.amount, &in.Amount}, "timezone": {&f.timezone, &in.Timezone}} {
		if given(name) {
			*to.place = to.value
		}
	}
	if given("window") {
		in.Window = (*account.Window)(&f.window)
	}
	if given("soft") {
		hard := !f.soft
		in.Hard = &hard
	}
	scopes := 0
	for _, name := range []string{"account", "key", "tag", "each-session"} {
		if given(name) {
			scopes++
		}
	}
	if scopes > 1 && !(scopes == 2 && given("key") && given("each-session")) {
		return errors.New("a budget is for one of --account, --key, --tag and --each-session, or for --each-session of a --key")
	}
	if scopes > 0 {
		in.Scope = &account.BudgetScope{Account: f.account, Key: f.key, Tag: f.tag}
		if f.eachSession {
			in.Scope.Session = account.EachSession
		}
	}
	if given("marks") {
		if err := f.readMarks(in); err != nil {
			return err
		}
	}
	switch {
	case in.ID == "" && (in.Name == nil || in.Amount == nil || in.Window == nil):
		return errors.New("a new budget needs --name, --amount and --window; --id names one to change")
	case in.ID == "" && in.Scope == nil:
		in.Scope = &account.BudgetScope{Account: true}
	case in.ID != "" && in.Scope != nil:
		return errors.New("what a budget is for does not change; make another one, and delete this one")
	case in.ID != "" && in.Name == nil && in.Amount == nil && in.Window == nil && in.Timezone == nil && in.Hard == nil && in.Marks == nil:
		return errors.New("specify what to change, such as --amount")
	}
	return nil
}

// readMarks reads the percentages at which people are told.
func (f *budgetFlags) readMarks(in *admin.BudgetOrder) error {
	in.Marks = []int{}
	if f.marks == noLimit {
		return nil
	}
	for text := range strings.SplitSeq(f.marks, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q is not a percentage; write --marks like 50,80,100, or none", text)
		}
		in.Marks = append(in.Marks, n)
	}
	return nil
}

// budgetColumns are those of budgets.
func budgetColumns() columns[budget.Record] {
	return columns[budget.Record]{[]string{"BUDGET", "NAME", "FOR", "AMOUNT", "WINDOW", "SPENT", "RESERVED", "LEFT", "USED", "AT THE END", "RESETS"}, func(r *budget.Record) []string {
		end := "warns"
		if r.Hard {
			end = "refuses"
		}
		return []string{r.ID, r.Name, scopeText(&r.Scope), r.Amount, windowText(r), figureText(r.Spent), figureText(r.Reserved), figureText(r.Left), usedText(r), end, timeText(r.ResetsAt)}
	}}
}

// figureText returns a figure, or a dash if there is none.
func figureText(dollars *string) string {
	if dollars == nil {
		return "-"
	}
	return *dollars
}

// budgetBar is how many characters show what is spent of a budget.
const budgetBar = 10

// usedText shows what is spent of a budget as a bar and a percentage.
func usedText(r *budget.Record) string {
	percent, known := r.Percent()
	if !known {
		return "-"
	}
	full := int(min(100, percent) * budgetBar / 100)
	return fmt.Sprintf("%s%s %d%%", strings.Repeat("#", full), strings.Repeat(".", budgetBar-full), percent)
}

// windowText returns the window of a budget with its time zone.
func windowText(r *budget.Record) string {
	if r.Timezone == "UTC" || r.Window.Rolls() || r.Window == account.Total {
		return string(r.Window)
	}
	return string(r.Window) + " in " + r.Timezone
}

// scopeText says which calls a budget is for.
func scopeText(s *account.BudgetScope) string {
	switch {
	case s.Session != "" && s.Key != "":
		return "each session of " + s.Key
	case s.Key != "":
		return s.Key
	case s.Tag != "":
		return s.Tag
	case s.Session != "":
		return "each session"
	}
	return "all calls"
}
