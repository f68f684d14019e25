package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/operate/admin"
)

// adminPatience is how long a command waits for the server, or for the data folder while
// another command holds its lock. It is short enough for a script that must not hang.
const adminPatience = time.Minute

// ask runs one operation in the name of whoever runs this command, on the client of client. It holds the data folder only
// for this call.
func ask[In, Out any](ctx context.Context, p *program, op admin.Op[In, Out], in In) (out Out, err error) {
	return askWithin(ctx, p, adminPatience, op, in)
}

// askWithin is ask for an operation that may take longer.
func askWithin[In, Out any](ctx context.Context, p *program, patience time.Duration, op admin.Op[In, Out], in In) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, done, err := p.client(ctx)
	if err != nil {
		return out, err
	}
	client.Actor = p.actor()
	out, err = op.Call(ctx, client, in)
	// The error of the operation is the more useful one.
	if closeErr := done(); err == nil {
		err = closeErr
	}
	return out, err
}

// client returns a client of the running server or, if there is none, of the operations on the data folder in this
// process. done releases the folder.
//
// The running server is preferred because two processes must not write to one SQLite folder,
// and because the change then applies to the next request.
//
// With --server, it is a client of another server, through its admin API.
func (p *program) client(ctx context.Context) (client *admin.Client, done func() error, err error) {
	done = func() error { return nil }
	if server := p.setting(p.server, "SLUICE_SERVER"); server != "" {
		client, err = admin.Remote(server, p.setting(p.token, "SLUICE_TOKEN"))
		return client, done, err
	}
	// The server has a whole configuration; the command needs none.
	if client, _, err = p.dial(ctx); err != nil || client != nil {
		return client, done, err
	}
	cfg, err := p.load()
	if err != nil {
		return nil, nil, err
	}
	return app.Admin(ctx, cfg)
}

// setting returns the value of a flag or, if it is not given, of a variable of the environment.
func (p *program) setting(flag, variable string) string { return cmp.Or(flag, p.variable(variable)) }

// does makes a command run an operation and print its result. The flags of the command write to in, and its arguments
// go to the texts into, in order. people writes the result as text.
func does[In, Out any](p *program, cmd *cobra.Command, op admin.Op[In, Out], in *In, people func(w io.Writer, out *Out), into ...*string) *cobra.Command {
	takes(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error {
		place(given, into)
		out, err := ask(c.Context(), p, op, *in)
		if err != nil {
			return err
		}
		return p.print(out, func(w io.Writer) { people(w, &out) })
	}
	return cmd
}

// lists makes a command print all pages of a list as a table. in and into are those of does.
func lists[In, T any, P admin.Pager[In]](p *program, cmd *cobra.Command, op admin.Op[In, admin.List[T]], in *In, cols columns[T], into ...*string) *cobra.Command {
	takes(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error {
		place(given, into)
		all, err := allOf[In, T, P](c.Context(), p, op, *in)
		if err != nil {
			return err
		}
		return cols.print(p, all)
	}
	return cmd
}

// page makes a command print one page of a list as a table. in and into are those of does.
func page[In, T any](p *program, cmd *cobra.Command, op admin.Op[In, admin.List[T]], in *In, cols columns[T], into ...*string) *cobra.Command {
	takes(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error {
		place(given, into)
		out, err := ask(c.Context(), p, op, *in)
		if err != nil {
			return err
		}
		return cols.print(p, out.Data)
	}
	return cmd
}

// allOf returns all pages of a list.
func allOf[In, T any, P admin.Pager[In]](ctx context.Context, p *program, op admin.Op[In, admin.List[T]], in In) ([]T, error) {
	return admin.All[In, T, P](in, func(at In) (admin.List[T], error) { return ask(ctx, p, op, at) })
}

// place puts the arguments of a command into texts. Those that were left out stay empty.
func place(given []string, into []*string) {
	for i, text := range given[:min(len(given), len(into))] {
		*into[i] = text
	}
}

// judge prints a result, and fails if it is not good. Scripts notice that by the exit code.
func (p *program) judge(v any, good bool, people func(w io.Writer)) error {
	if err := p.print(v, people); err != nil || good {
		return err
	}
	return errSilent
}

// print writes v as JSON if --json is set, and calls people to write it as text otherwise.
func (p *program) print(v any, people func(w io.Writer)) error {
	if !p.asJSON {
		people(p.stdout)
		return nil
	}
	enc := json.NewEncoder(p.stdout)
	// Reasons and addresses may contain < and &, and nobody embeds this output in HTML.
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows in aligned columns. The first row is the header, except in a list of
// properties, which has none.
func table(w io.Writer, rows [][]string) {
	// Three spaces between columns: values may contain single ones.
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush() // there is nowhere to report that stdout failed
}

// columns is how a list is written as a table.
type columns[T any] struct {
	head []string
	row  func(x *T) []string
}

// write writes the table.
func (c columns[T]) write(w io.Writer, list []T) {
	rows := [][]string{c.head}
	for i := range list {
		rows = append(rows, c.row(&list[i]))
	}
	table(w, rows)
}

// print prints a list, which is a JSON array with --json.
func (c columns[T]) print(p *program, list []T) error {
	return p.print(list, func(w io.Writer) { c.write(w, list) })
}

// printAccount prints an account as a list of properties, followed by its keys. Properties
// that are rarely set, such as a suspension, appear only if they are.
func printAccount(w io.Writer, a *admin.Account) {
	rows := [][]string{
		{"id", a.ID},
		{"e-mail", a.Email},
		{"plan", planText(a)},
		{"status", a.Status},
		{"requests per minute", limitText(a.Limits.RequestsPerMinute, a.Overrides.RequestsPerMinute)},
		{"concurrent requests", limitText(a.Limits.Concurrent, a.Overrides.Concurrent)},
		{"tokens per minute", limitText(a.Limits.TokensPerMinute, a.Overrides.TokensPerMinute)},
		{"created", timeText(&a.CreatedAt)},
	}
	if a.Staff {
		rows = append(rows, []string{"staff", "yes"})
	}
	if a.ShowCost {
		rows = append(rows, []string{"replies show the cost", "yes"})
	}
	if a.Receipts {
		rows = append(rows, []string{"receipts of every call", "yes"})
	}
	if a.AutoCache != "default" {
		rows = append(rows, []string{"automatic cache marks", a.AutoCache})
	}
	if m := a.Suspended; m != nil {
		rows = append(rows, []string{"suspended", timeText(&m.At) + ": " + m.Reason})
	}
	if m := a.Deactivated; m != nil {
		rows = append(rows, []string{"keys deactivated", timeText(&m.At) + ": " + m.Reason})
	}
	table(w, rows)
	fmt.Fprintln(w)
	keyColumns().write(w, a.Keys)
}

// keyColumns are those of keys without the secret part, which is not stored.
func keyColumns() columns[admin.Key] {
	return columns[admin.Key]{[]string{"KEY", "KIND", "NAME", "ENDS IN", "STATUS", "CREATED", "LAST USED", "LIMITS"}, func(k *admin.Key) []string {
		return []string{k.ID, k.Kind, k.Name, k.LastFour, k.Status, timeText(&k.CreatedAt), timeText(k.LastUsedAt), cmp.Or(k.Limits.String(), "none")}
	}}
}

// planText marks a plan that was granted and is not paid for.
func planText(a *admin.Account) string {
	if a.Granted {
		return a.Plan + " (granted)"
	}
	return a.Plan
}

// limitText formats a limit, and notes if it overrides the plan's.
func limitText(inForce account.Limit, override *account.Limit) string {
	text := fmt.Sprint(int64(inForce))
	if inForce == account.Unlimited {
		text = "unlimited"
	}
	if override != nil {
		text += " (set for this account)"
	}
	return text
}

// timeText formats a time in the local zone, to the minute. A nil time is "never". Billing uses
// utcText instead.
func timeText(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04")
}
