package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/refusal"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/signal"
)

// requestCmd groups the commands about single requests.
func (p *program) requestCmd() *cobra.Command {
	return group("request", "Show how a request was handled, and list refused requests", p.requestShowCmd(), p.requestRefusedCmd())
}

// requestShowCmd prints what is known of one request. Prompts and answers are not stored.
func (p *program) requestShowCmd() *cobra.Command {
	in := admin.RequestQuery{}
	return does(p, &cobra.Command{
		Use: "show ID", Short: "Show how a request was handled: account, route, attempts, times, tokens, outcome",
		Long:    "Show how a request was handled. ID is its request id, the id of its completion, or the\nid that a trusted proxy gave it. Prompts and answers are not stored.",
		Example: "  sluice request show 6701a3f24b1c9d0e8f7a6b5c4d3e2f10",
	}, p.ops.RequestShow, &in, func(w io.Writer, out *admin.Requests) {
		for i := range out.Settled {
			printRequest(w, &out.Settled[i])
		}
		for i := range out.Refused {
			printRefused(w, &out.Refused[i])
		}
	}, &in.ID)
}

// filled writes a list of properties, without those that have no value.
func filled(w io.Writer, rows [][]string) {
	table(w, slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" }))
}

// printRequest prints the way of a settled request.
func printRequest(w io.Writer, r *admin.Request) {
	key := r.KeyID
	if r.KeyFour != "" {
		key += fmt.Sprintf(" (%s, …%s)", r.KeyName, r.KeyFour)
	}
	model := r.ModelAsked
	if r.Model != r.ModelAsked {
		model += ", answered by " + r.Model
	}
	written := ""
	if r.CacheWriteTokens > 0 {
		written = fmt.Sprintf(", %d written to the cache", r.CacheWriteTokens)
	}
	tokens := fmt.Sprintf("%d prompt (%d cached%s), %d completion (%d reasoning)", r.PromptTokens, r.CachedTokens, written, r.CompletionTokens, r.ReasoningTokens)
	if r.Counted {
		tokens += ", counted by us"
	}
	cost := "no price"
	if r.CostUSD != "" {
		cost = "$" + r.CostUSD.String()
	}
	if r.ChargeUSD != "" {
		cost += ", charged $" + r.ChargeUSD.String()
	}
	cache := ""
	if r.Cache != nil {
		cache = fmt.Sprintf("%s: %s", r.Cache.Reason, r.Cache.Text)
	}
	rows := [][]string{
		{"Request", r.ID},
		{"Given id", r.RequestID},
		{"At", utcText(r.At)},
		{"Account", r.AccountID + " " + r.Email},
		{"Key", key},
		{"Plan", r.Plan},
		{"Address", r.Address},
		{"Door", r.Door},
		{"Model", model},
		{"Provider", r.Provider},
		{"Route", r.Reason},
		{"Affinity", r.Affinity},
		{"Tokens", tokens},
		{"Cost", fmt.Sprintf("%s; requests %s, units %s", cost, r.Requests, r.Units)},
		{"Cache", cache},
		{"Outcome", fmt.Sprintf("%s, status %d, %d ms", r.Outcome, r.Status, r.LatencyMS)},
	}
	if r.MCPCalls > 0 {
		rows = append(rows, []string{"MCP tools", fmt.Sprintf("%d calls, %d failed", r.MCPCalls, r.MCPFailed)})
	}
	filled(w, rows)
	fmt.Fprintln(w)
	columns[admin.Step]{[]string{"MS", "STEP"}, func(s *admin.Step) []string {
		return []string{strconv.FormatFloat(s.AtMS, 'f', 1, 64), s.What}
	}}.write(w, r.Steps)
	if r.Left > 0 {
		fmt.Fprintf(w, "%d further attempts are not kept.\n", r.Left)
	}
}

// printRefused prints a refused call.
func printRefused(w io.Writer, c *admin.RefusedCall) {
	filled(w, [][]string{
		{"Request", c.ID},
		{"Given id", c.RequestID},
		{"At", utcText(c.At)},
		{"Account", c.AccountID + " " + c.Email},
		{"Key", c.KeyID},
		{"Address", c.Address},
		{"Path", c.Path},
		{"Model", c.Model},
		{"Refused", fmt.Sprintf("%d %s", c.Status, c.Kind)},
		{"Field", c.Param},
	})
}

// requestRefusedCmd prints the last refused calls of an account.
func (p *program) requestRefusedCmd() *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "refused ID|E-MAIL", Short: "List the last refused requests of an account", Args: args("ID"),
		Long: "List the last requests of an account that were refused with 400, 402, 403 or 429,\nnewest first. The last 1,000 are kept, for 30 days.",
		RunE: func(c *cobra.Command, given []string) error {
			if limit < 1 || limit > 1000 {
				return misused(c, fmt.Errorf("--limit must be between 1 and 1000"))
			}
			all := admin.Refused{List: admin.List[admin.RefusedCall]{Data: []admin.RefusedCall{}}}
			for in := (admin.AccountPage{Ref: given[0]}); ; in.After = all.Next {
				in.Limit = min(limit-len(all.Data), 200)
				page, err := ask(c.Context(), p, p.ops.RequestRefused, in)
				if err != nil {
					return err
				}
				if in.After == "" {
					all.Hours = page.Hours
				}
				all.Data, all.Next = append(all.Data, page.Data...), page.Next
				if all.Next == "" || len(all.Data) >= limit {
					break
				}
			}
			return p.print(all, func(w io.Writer) {
				columns[admin.RefusedCall]{[]string{"AT", "STATUS", "TYPE", "FIELD", "MODEL", "KEY", "ADDRESS", "REQUEST"}, func(r *admin.RefusedCall) []string {
					return []string{utcText(r.At), strconv.Itoa(r.Status), r.Kind, r.Param, r.Model, r.KeyID, r.Address, cmp.Or(r.RequestID, r.ID)}
				}}.write(w, all.Data)
				printHours(w, all.Hours)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most `N` requests")
	return cmd
}

// printHours prints how many calls were refused in the last day and week.
func printHours(w io.Writer, hours []refusal.Minute) {
	var day, week int64
	for _, h := range hours {
		week += h.Calls
		if time.Since(h.Start) < 24*time.Hour {
			day += h.Calls
		}
	}
	fmt.Fprintf(w, "%d refused in the last 24 hours, %d in the last 7 days.\n", day, week)
}

// accountSearchCmd finds accounts by what their owners can tell.
func (p *program) accountSearchCmd() *cobra.Command {
	in := admin.SearchQuery{}
	cmd := does(p, &cobra.Command{
		Use: "search TERM", Short: "Find accounts by e-mail, id, last four of a key, or request id",
		Long:    "Find accounts. TERM is an e-mail address or a part of it, the id of an account or\nkey, the last four characters of a key, or a request id.",
		Example: "  sluice account search ana@\n  sluice account search k3Xq",
	}, p.ops.AccountSearch, &in, func(w io.Writer, out *admin.List[admin.Match]) {
		columns[admin.Match]{[]string{"ACCOUNT", "E-MAIL", "PLAN", "STATUS", "FOUND BY"}, func(m *admin.Match) []string {
			by := m.By
			switch {
			case m.Key != nil:
				by = fmt.Sprintf("key %s …%s, %s", m.Key.ID, m.Key.LastFour, m.Key.Status)
			case m.RequestID != "":
				by = "request " + m.RequestID
			}
			return []string{m.AccountID, m.Email, m.Plan, m.Status, by}
		}}.write(w, out.Data)
		if out.Next != "" {
			fmt.Fprintf(w, "There are more: --after %s\n", out.Next)
		}
	}, &in.Term)
	cmd.Flags().StringVar(&in.After, "after", "", "continue after the `page` that printed this value")
	return cmd
}

// printSignals prints the reasons to look at an account, and where its calls came from.
func printSignals(w io.Writer, out *signal.Report) {
	if len(out.Reasons) == 0 {
		fmt.Fprintln(w, "No signals.")
	}
	for _, r := range out.Reasons {
		fmt.Fprintf(w, "%s: %s", r.Kind, r.Text)
		if r.KeyID != "" {
			fmt.Fprintf(w, " (%s)", r.KeyID)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\n%d calls of the last 24 hours were looked at.\n", out.Calls)
	columns[signal.Network]{[]string{"NETWORK", "CALLS", "KEYS"}, func(n *signal.Network) []string {
		return []string{n.Prefix, strconv.Itoa(n.Calls), strconv.Itoa(n.Keys)}
	}}.write(w, out.Networks)
}
