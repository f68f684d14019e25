package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/app/moving"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/operate/admin"
)

// keyImport is the command "key import".
type keyImport struct {
	moving.KeyOptions
	plan, keys, report string
	apply, force       bool
}

// keyImportCmd creates accounts and keys from the tables of another gateway. Without --apply it only says what it would do.
func (p *program) keyImportCmd() *cobra.Command {
	var f keyImport
	cmd := &cobra.Command{
		Use: "import FILE…", Short: "Create accounts and keys from the database of another gateway",
		Long: "Create accounts and keys from exported tables of LiteLLM (LiteLLM_VerificationToken,\nLiteLLM_UserTable, LiteLLM_TeamTable, LiteLLM_BudgetTable) or of new-api and one-api\n" +
			"(tokens, users), as JSON or CSV with column names. Teams and people become accounts, and\ntheir keys sub-keys with the same limits and budgets where there are any.\n\n" +
			"Without --apply, nothing is changed. The old keys do not work here: each is replaced by a\nnew one, which --keys FILE receives. Running the command again creates only what is\nmissing.",
		Example: "  sluice key import tokens.csv users.csv teams.csv --domain example.com\n" +
			"  sluice key import tokens.csv users.csv teams.csv --domain example.com --apply --keys new-keys.csv",
		Args: func(c *cobra.Command, given []string) error { return args("FILE")(c, given[:min(1, len(given))]) },
		RunE: func(c *cobra.Command, given []string) error { return p.keyImport(c, given, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.From, "from", "", "`gateway` that the tables are from: "+strings.Join(moving.KeyFormats(), ", ")+" (default: guessed)")
	flags.StringVar(&f.Domain, "domain", "", "`domain` of accounts for teams and people without an e-mail address: research@DOMAIN")
	flags.StringVar(&f.plan, "plan", "scale", "`plan` of new accounts")
	flags.BoolVar(&f.apply, "apply", false, "create the accounts and keys")
	flags.StringVar(&f.keys, "keys", "", "`file` for the new keys, which only its owner can read; required with --apply")
	flags.StringVar(&f.report, "report", "", "`file` for the report instead of the standard error")
	flags.BoolVar(&f.force, "force", false, "replace a report that exists")
	return cmd
}

// keyImport runs "key import".
func (p *program) keyImport(c *cobra.Command, files []string, f *keyImport) error {
	if f.apply && f.keys == "" {
		return misused(c, errors.New("--apply needs --keys FILE: new keys are shown only once"))
	}
	if f.From != "" && !slices.Contains(moving.KeyFormats(), f.From) {
		return misused(c, fmt.Errorf("keys of %q cannot be converted; only those of %s", f.From, strings.Join(moving.KeyFormats(), ", ")))
	}
	if _, err := account.ParseEmail("keys@" + f.Domain); f.Domain != "" && err != nil {
		return misused(c, fmt.Errorf("%q is not a domain; write it like example.com", f.Domain))
	}
	f.Now = time.Now()
	var tables []moving.File
	for _, name := range files {
		text, err := readImport(name)
		if err != nil {
			return err
		}
		tables = append(tables, moving.File{Name: name, Text: text})
	}
	plan, err := moving.Keys(tables, f.KeyOptions)
	if err != nil {
		return err
	}
	if err := p.writeKeyReport(plan, f); err != nil {
		return err
	}
	if !f.apply {
		return p.print(plan, func(w io.Writer) { printKeyPlan(w, plan) })
	}
	return p.applyKeys(c, plan, f)
}

// writeKeyReport writes the report, unless the plan that is printed as JSON has it.
func (p *program) writeKeyReport(plan *moving.KeyPlan, f *keyImport) error {
	if p.asJSON && f.report == "" {
		return nil
	}
	var b strings.Builder
	plan.Report.Write(&b)
	if f.report != "" {
		return writeNew(f.report, b.String(), f.force)
	}
	_, err := io.WriteString(p.stderr, b.String()+"\n")
	return err
}

// printKeyPlan prints what would be created.
func printKeyPlan(w io.Writer, plan *moving.KeyPlan) {
	rows := [][]string{{"ACCOUNT", "KEY", "LIMITS", "BUDGETS"}}
	for _, h := range plan.Holders {
		for _, k := range h.Keys {
			rows = append(rows, []string{h.Email, k.Name, cmp.Or(limitsOf(&k.Limits).String(), "none"), budgetText(k.Budgets)})
		}
		if len(h.Budgets) > 0 {
			rows = append(rows, []string{h.Email, "(all keys)", "", budgetText(h.Budgets)})
		}
	}
	table(w, rows)
	fmt.Fprintf(w, "\nAccounts: %d. Keys: %d. Nothing has been created; run it again with --apply and --keys FILE.\n", len(plan.Holders), plan.Count())
}

// budgetText lists budgets.
func budgetText(all []moving.Budget) string {
	var texts []string
	for _, b := range all {
		texts = append(texts, b.String())
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// limitsOf returns limits in the form that operations take.
func limitsOf(l *account.KeyLimits) *admin.KeyLimits {
	out := &admin.KeyLimits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, UnitsPerMonth: l.UnitsPerMonth, Models: l.Models}
	for _, a := range l.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	if !l.ExpiresAt.IsZero() {
		out.ExpiresAt = &l.ExpiresAt
	}
	return out
}

// applied counts what key import has done.
type applied struct {
	Accounts int    `json:"accounts_created"`
	Keys     int    `json:"keys_created"`
	Budgets  int    `json:"budgets_created"`
	Present  int    `json:"keys_present"`
	File     string `json:"keys_file"`
}

// applyKeys creates what is missing. Each new key is in the file before the next one is made.
func (p *program) applyKeys(c *cobra.Command, plan *moving.KeyPlan, f *keyImport) error {
	if n := slices.IndexFunc(plan.Report.Entries, func(e moving.Entry) bool { return e.Path == "accounts" && e.Outcome == moving.Missing }); n >= 0 {
		return errors.New(plan.Report.Entries[n].Text)
	}
	file, err := os.OpenFile(f.keys, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others can read %s; choose a new file for the keys", f.keys)
	}
	out := &applied{File: f.keys}
	lines := csv.NewWriter(file)
	if info, _ := file.Stat(); info.Size() == 0 {
		_ = lines.Write([]string{"account", "name", "old_key", "new_key"}) // Flush reports what fails
	}
	for _, h := range plan.Holders {
		if err := p.applyHolder(c, h, f, lines, out); err != nil {
			return fmt.Errorf("account %s: %w; what was created so far stays, and the same command continues", h.Email, err)
		}
	}
	lines.Flush()
	if err := errors.Join(lines.Error(), file.Sync()); err != nil {
		return err
	}
	return p.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Accounts created: %d. Keys created: %d. Keys that were there already: %d. Budgets created: %d. The new keys are in %s.\n", out.Accounts, out.Keys, out.Present, out.Budgets, out.File)
	})
}

// applyHolder creates an account and those of its keys that it does not have.
func (p *program) applyHolder(c *cobra.Command, h *moving.Holder, f *keyImport, lines *csv.Writer, out *applied) error {
	save := func(name, old, key string) error {
		_ = lines.Write([]string{h.Email, name, old, key})
		lines.Flush()
		return lines.Error()
	}
	a, err := p.holderAccount(c, h, f, save, out)
	if err != nil {
		return err
	}
	have, err := ask(c.Context(), p, p.ops.BudgetList, admin.AccountPage{Ref: a.ID})
	if err != nil {
		return err
	}
	// What was made before the command was interrupted is not made again.
	budgets := func(name string, scope account.BudgetScope, planned []moving.Budget) error {
		for _, b := range planned {
			if slices.ContainsFunc(have.Data, func(r budget.Record) bool { return r.Name == name && r.Scope == scope && r.Hard == b.Hard }) {
				continue
			}
			amount := b.Amount.String()
			if _, err := ask(c.Context(), p, p.ops.BudgetSet, admin.BudgetOrder{Ref: a.ID, Name: &name, Amount: &amount, Window: &b.Window, Scope: &scope, Hard: &b.Hard}); err != nil {
				return fmt.Errorf("budget %q: %w", name, err)
			}
			out.Budgets++
		}
		return nil
	}
	if err := budgets("imported", account.BudgetScope{Account: true}, h.Budgets); err != nil {
		return err
	}
	for _, k := range h.Keys {
		name := excerpt.Of(k.Name, 60)
		if at := slices.IndexFunc(a.Keys, func(have admin.Key) bool { return strings.EqualFold(have.Name, k.Name) }); at >= 0 {
			out.Present++
			if err := budgets(name, account.BudgetScope{Key: a.Keys[at].ID}, k.Budgets); err != nil {
				return err
			}
			continue
		}
		made, err := ask(c.Context(), p, p.ops.KeyCreate, admin.KeyOrder{Target: admin.Target{Ref: a.ID, Name: k.Name}, Limits: limitsOf(&k.Limits)})
		if err != nil {
			return fmt.Errorf("key %q: %w", k.Name, err)
		}
		out.Keys++
		if err := save(k.Name, k.Old, made.Key); err != nil {
			return err
		}
		if err := budgets(name, account.BudgetScope{Key: made.ID}, k.Budgets); err != nil {
			return err
		}
	}
	return nil
}

// holderAccount returns the account of a holder, and creates it if there is none. Limits that somebody has given it since
// stay.
func (p *program) holderAccount(c *cobra.Command, h *moving.Holder, f *keyImport, save func(name, old, key string) error, out *applied) (admin.Account, error) {
	a, err := ask(c.Context(), p, p.ops.AccountShow, admin.Target{Ref: h.Email})
	if is, ok := errors.AsType[*fault.Fault](err); ok && is.Kind == fault.NotFound {
		made, err := ask(c.Context(), p, p.ops.AccountCreate, admin.NewAccount{Email: h.Email, Plan: f.plan})
		if err != nil {
			return a, err
		}
		out.Accounts++
		a.ID = made.ID
		if err := save("master key", "", made.MasterKey); err != nil {
			return a, err
		}
	} else if err != nil {
		return a, err
	}
	none := account.Overrides{}
	if h.Limits == none || a.Overrides != none {
		return a, nil
	}
	return ask(c.Context(), p, p.ops.AccountSetLimits, admin.NewLimits{Ref: a.ID, Set: h.Limits})
}
