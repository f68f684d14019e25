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

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/operate/admin"
)

// adminPatience is how long a command waits for the server, or for the data folder while
// another command holds its lock. It is short enough for a script that must not hang.
const adminPatience = time.Minute

// call runs one admin operation, on the running server or, if there is none, in process on the
// data folder. It holds the folder only for this call. in and out are types of package admin;
// out is a pointer.
//
// The running server is preferred because two processes must not write to one SQLite folder,
// and because the change then applies to the next request.
//
// With --server, the operation runs on another server, through its admin API.
func (p *program) call(ctx context.Context, name string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	if server := p.setting(p.server, "SLUICE_SERVER"); server != "" {
		client, err := admin.Remote(server, p.setting(p.token, "SLUICE_TOKEN"))
		if err != nil {
			return err
		}
		return client.Call(ctx, name, in, out)
	}
	// The server has a whole configuration; the command needs none.
	client, _, err := p.dial(ctx)
	if err != nil {
		return err
	}
	if client != nil {
		return client.Call(ctx, name, in, out)
	}
	cfg, err := p.load()
	if err != nil {
		return err
	}
	// done releases the data folder, or closes the connection to the server.
	client, done, err := app.Admin(ctx, cfg)
	if err != nil {
		return err
	}
	err = client.Call(ctx, name, in, out)
	// The error of the operation is the more useful one.
	if closeErr := done(); err == nil {
		err = closeErr
	}
	return err
}

// setting returns the value of a flag or, if it is not given, of a variable of the environment.
func (p *program) setting(flag, variable string) string {
	if flag != "" {
		return flag
	}
	for _, v := range p.environ {
		if value, ok := strings.CutPrefix(v, variable+"="); ok {
			return value
		}
	}
	return ""
}

// fetchAll fetches all pages of a list. in returns the argument of the operation for a page. The result is not nil,
// so that --json prints an empty list.
func fetchAll[T any](ctx context.Context, p *program, name string, in func(admin.Cursor) any) ([]T, error) {
	all := []T{}
	for at := (admin.Cursor{}); ; {
		var page admin.List[T]
		if err := p.call(ctx, name, in(at), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if at.After = page.Next; at.After == "" {
			return all, nil
		}
	}
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
	if m := a.Suspended; m != nil {
		rows = append(rows, []string{"suspended", timeText(&m.At) + ": " + m.Reason})
	}
	if m := a.Deactivated; m != nil {
		rows = append(rows, []string{"keys deactivated", timeText(&m.At) + ": " + m.Reason})
	}
	table(w, rows)
	fmt.Fprintln(w)
	printKeys(w, a.Keys)
}

// printKeys prints keys without the secret part, which is not stored.
func printKeys(w io.Writer, keys []admin.Key) {
	rows := [][]string{{"KEY", "KIND", "NAME", "ENDS IN", "STATUS", "CREATED", "LAST USED", "LIMITS"}}
	for i := range keys {
		k := &keys[i]
		rows = append(rows, []string{k.ID, k.Kind, k.Name, k.LastFour, k.Status, timeText(&k.CreatedAt), timeText(k.LastUsedAt), cmp.Or(k.Limits.String(), "none")})
	}
	table(w, rows)
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
