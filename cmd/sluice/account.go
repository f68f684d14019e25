package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/operate/admin"
)

// accountCmd groups the commands about accounts. An account is named by its id or its e-mail
// address everywhere. Every change is written to the audit log with the actor, which history
// shows.
func (p *program) accountCmd() *cobra.Command {
	of := &admin.AccountPage{}
	cmd := group("account", "Create, show and change accounts",
		p.accountCreateCmd(), p.accountSearchCmd(), p.accountSetLimitsCmd(), p.accountAliasesCmd(), p.accountSetRepliesCmd(), p.accountSetStaffCmd(), p.accountNoteCmd(),
		lists(p, &cobra.Command{Use: "list", Short: "List all accounts"}, p.ops.AccountList, &admin.Cursor{},
			columns[admin.Account]{[]string{"ID", "E-MAIL", "PLAN", "STATUS", "KEYS", "CREATED"}, func(a *admin.Account) []string {
				return []string{a.ID, a.Email, planText(a), a.Status, strconv.Itoa(len(a.Keys)), timeText(&a.CreatedAt)}
			}}),
		// The newest 1,000 entries; the account's own export has all of them.
		page(p, &cobra.Command{Use: "history ID|E-MAIL", Short: "Show who changed an account, when and why"}, p.ops.AccountHistory, of, entryColumns("WHY"), &of.Ref),
		lists(p, &cobra.Command{Use: "sessions ID", Short: "List where the owner of an account is signed in"}, p.ops.AccountSessions, of,
			columns[signin.Session]{[]string{"SESSION", "SIGNED IN", "LAST SEEN", "BY", "ADDRESS", "BROWSER"}, func(s *signin.Session) []string {
				return []string{s.ID, timeText(&s.CreatedAt), timeText(&s.SeenAt), string(s.Via), s.Remote, strings.Join(strings.Fields(s.Agent), " ")}
			}}, &of.Ref))
	cmd.AddCommand(p.accountSteps()...)
	return cmd
}

// accountSteps are the commands that need no more than an account, and a reason if they change it.
func (p *program) accountSteps() []*cobra.Command {
	in := &admin.Target{} // only one of them runs
	reasoned := func(cmd *cobra.Command, op admin.Op[admin.Target, admin.Account]) *cobra.Command {
		return addReason(does(p, cmd, op, in, printAccount, &in.Ref), &in.Reason)
	}
	return []*cobra.Command{
		does(p, &cobra.Command{Use: "show ID|E-MAIL", Short: "Show an account with its limits and keys"}, p.ops.AccountShow, in, printAccount, &in.Ref),
		// Why an account has its abuse score (docs/api.md#abuse-control), for support that has to explain it to a customer.
		does(p, &cobra.Command{Use: "abuse ID|E-MAIL", Short: "Show an account's abuse score and its history"}, p.ops.AccountAbuse, in, printAbuse, &in.Ref),
		does(p, &cobra.Command{
			Use: "signals ID|E-MAIL", Short: "Show patterns in an account's calls that hint at resale or proxying",
			Long: "Show patterns in an account's calls that its score does not show: sudden growth, a\nplan's limits used for hours, a key used from many networks, calls at even\nintervals. They are reasons to take a closer look, and have no\neffect by themselves.",
		}, p.ops.AccountSignals, in, printSignals, &in.Ref),
		// Outside of billing: paid subscriptions are changed with "sluice billing".
		mayReason(does(p, &cobra.Command{
			Use: "set-plan ID PLAN", Short: "Grant a plan: none, free, basic, premium or scale",
			Long: "Grant a plan. A granted plan is free and has no billing period. Use \"none\" to remove the plan.",
		}, p.ops.AccountSetPlan, in, printAccount, &in.Ref, &in.Plan), &in.Reason),
		// docs/api.md#account-states. The owner sees the reason on the dashboard.
		reasoned(&cobra.Command{Use: "suspend ID --reason R", Short: "Suspend an account: all of its requests are refused"}, p.ops.AccountSuspend),
		// Keys that abuse control deactivated stay so; see "sluice key restore".
		mayReason(does(p, &cobra.Command{Use: "unsuspend ID", Short: "Lift the suspension of an account; a terminated account stays closed"},
			p.ops.AccountUnsuspend, in, printAccount, &in.Ref), &in.Reason),
		reasoned(&cobra.Command{Use: "terminate ID --reason R", Short: "Terminate an account permanently and end its subscription"}, p.ops.AccountTerminate),
		addReason(does(p, &cobra.Command{Use: "sign-out ID --reason R", Short: "End all sessions and pending links of an account"},
			p.ops.AccountSignOut, in, func(w io.Writer, a *admin.Account) { fmt.Fprintf(w, "%s is signed out everywhere.\n", a.Email) }, &in.Ref), &in.Reason),
		// For somebody who has lost their phone.
		addReason(does(p, &cobra.Command{
			Use: "reset-second-factor ID --reason R", Short: "Turn two-step sign-in off and remove all passkeys for somebody who has lost them",
			Long: "Turn two-step sign-in off and sign the account out everywhere. First make sure who\nis asking: from then on the password alone is enough. The owner is told by mail if a\nserver is running.",
		}, p.ops.AccountResetSecondFactor, in, func(w io.Writer, a *admin.Account) { fmt.Fprintf(w, "Two-step sign-in of %s is off.\n", a.Email) }, &in.Ref), &in.Reason),
	}
}

// accountCreateCmd creates an account that has no password. "sluice signin-link" lets its
// owner in. The plan is granted: it costs nothing and has no billing period.
func (p *program) accountCreateCmd() *cobra.Command {
	// The flags write to in directly; the server checks the values.
	var in admin.NewAccount
	cmd := does(p, &cobra.Command{
		Use: "create --email E", Short: "Create an account and print its master key",
		Example: "  sluice account create --email ana@example.com --plan basic",
	}, p.ops.AccountCreate, &in, func(w io.Writer, a *admin.CreatedAccount) {
		fmt.Fprintf(w, "Created account %s (%s) on plan %s.\n", a.ID, a.Email, a.Plan)
		fmt.Fprintf(w, "Its master key is shown only once:\n\n  %s\n", a.MasterKey)
	})
	cmd.Flags().StringVar(&in.Email, "email", "", "e-mail `address` of the account")
	cmd.Flags().StringVar(&in.Plan, "plan", "none", "`plan`: none, free, basic, premium or scale")
	cmd.Flags().BoolVar(&in.Staff, "staff", false, "mark the account as a staff account")
	return requires(cmd, "email")
}

// entryColumns returns entries of the audit log as a table. reason is the head of the last column.
func entryColumns(reason string) columns[account.Entry] {
	return columns[account.Entry]{[]string{"WHEN", "WHO", "WHAT", "DETAIL", reason}, func(e *account.Entry) []string {
		return []string{timeText(&e.At), e.Actor, e.Action, e.Detail, e.Reason}
	}}
}

// printAbuse prints the score of each tier, then the events that led to it. "REACHES 100" is
// when the keys would be deactivated at the rate of the last 24 hours.
func printAbuse(w io.Writer, a *admin.Abuse) {
	columns[admin.AbuseTier]{[]string{"TIER", "SCORE", "UNITS", "BUDGET", "REACHES 100"}, func(t *admin.AbuseTier) []string {
		// Units are counted by the month, so a later date would never come.
		reaches := "not this month"
		if t.Reaches != nil {
			reaches = timeText(t.Reaches)
		}
		return []string{t.Tier, strconv.Itoa(t.Score), t.Units.String(), limitText(t.Budget, nil), reaches}
	}}.write(w, a.Tiers)
	// An account that was never conspicuous has scores but no events.
	if len(a.Events) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := [][]string{{"WHEN", "WHAT", "SCORE", "TIER", "WHY", "BY"}}
	for _, e := range a.Events {
		rows = append(rows, []string{timeText(&e.At), string(e.Kind), strconv.Itoa(e.Score), e.Tier.String(), e.Why, e.Actor})
	}
	table(w, rows)
}

// accountSetLimitsCmd overrides single limits of the plan (docs/api.md#limits-by-plan). Limits
// that are not given stay as they are. The change applies to the very next request.
func (p *program) accountSetLimitsCmd() *cobra.Command {
	// The flags write to in and to the texts below when the command line is parsed, before RunE runs.
	in := admin.NewLimits{}
	var rpm, concurrent, tpm string
	cmd := does(p, &cobra.Command{
		Use: "set-limits ID [--rpm N] [--concurrent N] [--tpm N]", Short: "Override the limits of an account",
		Long:    "Set limits that override those of the account's plan. A limit is a whole number\nor \"unlimited\". Use --clear to return to the limits of the plan.",
		Example: "  sluice account set-limits ana@example.com --rpm 200 --concurrent unlimited",
		PreRunE: func(c *cobra.Command, _ []string) error {
			// Only flags that were given override the plan: nil means "as the plan says", 0
			// means "nothing allowed".
			for text, to := range map[*string]**account.Limit{
				&rpm: &in.Set.RequestsPerMinute, &concurrent: &in.Set.Concurrent, &tpm: &in.Set.TokensPerMinute,
			} {
				if *text == "" {
					continue
				}
				l, err := parseLimit(*text)
				if err != nil {
					return misused(c, err)
				}
				*to = &l
			}
			// Without a flag the command would succeed and do nothing.
			if in.Set == (account.Overrides{}) && !in.Clear {
				return misused(c, fmt.Errorf("specify at least one of --rpm, --concurrent, --tpm or --clear"))
			}
			return nil
		},
	}, p.ops.AccountSetLimits, &in, printAccount, &in.Ref)
	cmd.Flags().StringVar(&rpm, "rpm", "", "requests per minute: a `number` or unlimited")
	cmd.Flags().StringVar(&concurrent, "concurrent", "", "concurrent requests: a `number` or unlimited")
	cmd.Flags().StringVar(&tpm, "tpm", "", "tokens per minute: a `number` or unlimited")
	// With --clear and a limit, only that limit is overridden afterwards.
	cmd.Flags().BoolVar(&in.Clear, "clear", false, "remove all overrides first")
	return mayReason(cmd, &in.Reason)
}

// accountAliasesCmd shows or changes the account's own aliases (docs/api.md#aliases).
func (p *program) accountAliasesCmd() *cobra.Command {
	in := admin.NewAliases{Set: map[string]string{}}
	cmd := &cobra.Command{
		Use: "aliases ID [NAME=MODEL…]", Short: "Show or change the names that an account may use for models", Args: func(c *cobra.Command, given []string) error { return args("ID")(c, given[:min(1, len(given))]) },
		Long: "Show the account's own aliases, or change them. NAME is exact or ends with an\nasterisk; MODEL is the id of a model, and nothing removes the alias. They win over\n" +
			"the aliases of the configuration.",
		Example: "  sluice account aliases ana@example.com 'claude-sonnet-*=lab/large' gpt-4o=\n  sluice account aliases ana@example.com --clear",
		RunE: func(c *cobra.Command, given []string) error {
			in.Ref = given[0]
			for _, pair := range given[1:] {
				name, id, ok := strings.Cut(pair, "=")
				if !ok {
					return misused(c, fmt.Errorf("%q is not an alias; write NAME=MODEL", pair))
				}
				in.Set[name] = id
			}
			var out admin.Account
			var err error
			if len(in.Set) == 0 && !in.Clear {
				out, err = ask(c.Context(), p, p.ops.AccountShow, admin.Target{Ref: in.Ref})
			} else {
				out, err = ask(c.Context(), p, p.ops.AccountSetAliases, in)
			}
			if err != nil {
				return err
			}
			if out.Aliases == nil {
				out.Aliases = map[string]string{} // {} rather than null
			}
			return p.print(out.Aliases, func(w io.Writer) {
				rows := [][]string{{"ALIAS", "MODEL"}}
				for _, name := range slices.Sorted(maps.Keys(out.Aliases)) {
					rows = append(rows, []string{name, out.Aliases[name]})
				}
				table(w, rows)
			})
		},
	}
	cmd.Flags().BoolVar(&in.Clear, "clear", false, "remove all aliases of the account first")
	return mayReason(cmd, &in.Reason)
}

// accountSetRepliesCmd changes what the replies to an account say (docs/api.md#what-a-call-costs), and whether its calls leave
// receipts (docs/call/receipts.md), and whether marks are set for the vendors' caches (docs/providers/auto-cache.md).
func (p *program) accountSetRepliesCmd() *cobra.Command {
	in := admin.NewReplies{}
	var cost, receipts bool
	cmd := does(p, &cobra.Command{
		Use: "set-replies ID [--show-cost[=false]] [--receipts[=false]] [--auto-cache on|off|default]", Short: "Change what the replies to an account say, and whether its calls leave receipts",
		Long: `Change what the replies to an account say, and whether its calls leave receipts.

With --show-cost, every reply says what it costs in usage.cost, as if its request
had "usage": {"include": true}. With --receipts, every call leaves a receipt, a signed
statement of what it was, used and cost; without it, a call leaves one only if its
request asks for it. --show-cost=false and --receipts=false turn them off.
--auto-cache says whether Sluice marks what vendors are to keep of prompts, where that
pays: on and off hold for all models, and default leaves it to each model's auto_cache.
A flag that is not given changes nothing. The owner can change all of them on the
dashboard.`,
		Example: "  sluice account set-replies ana@example.com --show-cost\n  sluice account set-replies ana@example.com --receipts --show-cost=false",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("show-cost") {
				in.ShowCost = &cost
			}
			if c.Flags().Changed("receipts") {
				in.Receipts = &receipts
			}
			if in.ShowCost == nil && in.Receipts == nil && in.AutoCache == "" {
				return misused(c, fmt.Errorf("specify --show-cost, --receipts, --auto-cache or several; =false turns one of the first two off"))
			}
			return nil
		},
	}, p.ops.AccountSetReplies, &in, printAccount, &in.Ref)
	cmd.Flags().BoolVar(&cost, "show-cost", false, "every reply says what it costs")
	cmd.Flags().BoolVar(&receipts, "receipts", false, "every call leaves a receipt")
	cmd.Flags().StringVar(&in.AutoCache, "auto-cache", "", "mark what vendors are to keep of prompts: on, off or default")
	return mayReason(cmd, &in.Reason)
}

// accountNoteCmd writes a note for whoever looks at the account next.
func (p *program) accountNoteCmd() *cobra.Command {
	in := admin.Note{}
	return does(p, &cobra.Command{
		Use: "note ID TEXT", Short: "Write a note to the audit log of an account",
		Long: "Write a note to the audit log of an account. The customer can read it in the export\nof their data.",
	}, p.ops.AccountNote, &in, printAccount, &in.Ref, &in.Note)
}

// addReason adds the required flag --reason, for the commands that take access away from a
// customer.
func addReason(cmd *cobra.Command, reason *string) *cobra.Command {
	cmd.Flags().StringVar(reason, "reason", "", "`reason` for the audit log")
	return requires(cmd, "reason")
}

// mayReason adds the flag --reason where the operator on the server's machine may leave it out.
func mayReason(cmd *cobra.Command, reason *string) *cobra.Command {
	cmd.Flags().StringVar(reason, "reason", "", "`reason` for the audit log; required with --server")
	return cmd
}

// addWhy adds the flag --reason to the commands about the running service.
func addWhy(cmd *cobra.Command, reason *string) *cobra.Command {
	cmd.Flags().StringVar(reason, "reason", "", "`why`, for the audit log")
	return cmd
}

// requires marks flags of a command as required.
func requires(cmd *cobra.Command, names ...string) *cobra.Command {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

// parseLimit parses a limit of the command line: a whole number or "unlimited". 0 allows
// nothing.
func parseLimit(text string) (account.Limit, error) {
	if text == "unlimited" {
		return account.Unlimited, nil
	}
	// MostLimit keeps sums of limits and counters from overflowing.
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(account.MostLimit) {
		return 0, fmt.Errorf("%q is not a limit; use a whole number from 0 to %d or \"unlimited\"", text, account.MostLimit)
	}
	return account.Limit(n), nil
}

// needsSubcommand prints the help of a command group that was called without a command, and
// fails, so that a script with a missing word does not go unnoticed.
func needsSubcommand(c *cobra.Command, _ []string) error {
	if err := c.Help(); err != nil {
		return err
	}
	return misused(c, fmt.Errorf("specify which %s command to run", c.Name()))
}
