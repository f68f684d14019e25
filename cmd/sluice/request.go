package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/signal"
)

// requestCmd groups the commands about single requests.
func (p *program) requestCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "request", Short: "Show the way of a request, and refused requests", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.requestShowCmd(), p.requestRefusedCmd())
	return cmd
}

// requestShowCmd prints what is known of one request. Prompts and answers are not stored.
func (p *program) requestShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show the way of a request: account, route, attempts, times, tokens, outcome", Args: args("ID"),
		Long:    "Show the way of a request. ID is its request id, the id of its completion, or the\nid that a trusted proxy gave it. Prompts and answers are not stored.",
		Example: "  sluice request show 6701a3f24b1c9d0e8f7a6b5c4d3e2f10",
		RunE: func(c *cobra.Command, given []string) error {
			var out admin.Requests
			if err := p.call(c.Context(), "request.show", admin.RequestQuery{ID: given[0]}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				for i := range out.Settled {
					printRequest(w, &out.Settled[i])
				}
				for i := range out.Refused {
					printRefused(w, &out.Refused[i])
				}
			})
		},
	}
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
	tokens := fmt.Sprintf("%d prompt (%d cached), %d completion (%d reasoning)", r.PromptTokens, r.CachedTokens, r.CompletionTokens, r.ReasoningTokens)
	if r.Counted {
		tokens += ", counted by us"
	}
	cost := "no price"
	if r.CostUSD != "" {
		cost = "$" + r.CostUSD.String()
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
		{"Tokens", tokens},
		{"Cost", fmt.Sprintf("%s; requests %s, units %s", cost, r.Requests, r.Units)},
		{"Outcome", fmt.Sprintf("%s, status %d, %d ms", r.Outcome, r.Status, r.LatencyMS)},
	}
	if r.MCPCalls > 0 {
		rows = append(rows, []string{"MCP tools", fmt.Sprintf("%d calls, %d failed", r.MCPCalls, r.MCPFailed)})
	}
	var filled [][]string
	for _, row := range rows {
		if row[1] != "" {
			filled = append(filled, row)
		}
	}
	table(w, filled)
	fmt.Fprintln(w)
	steps := [][]string{{"MS", "STEP"}}
	for _, s := range r.Steps {
		steps = append(steps, []string{strconv.FormatFloat(s.AtMS, 'f', 1, 64), s.What})
	}
	table(w, steps)
	if r.Left > 0 {
		fmt.Fprintf(w, "%d further attempts are not kept.\n", r.Left)
	}
}

// printRefused prints a refused call.
func printRefused(w io.Writer, c *admin.RefusedCall) {
	var rows [][]string
	for _, row := range [][]string{
		{"Request", c.ID},
		{"Given id", c.RequestID},
		{"At", utcText(c.At)},
		{"Account", c.AccountID + " " + c.Email},
		{"Key", c.KeyID},
		{"Address", c.Address},
		{"Path", c.Path},
		{"Model", c.Model},
		{"Refused", fmt.Sprintf("%d %s", c.Status, c.Type)},
		{"Field", c.Param},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	table(w, rows)
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
				var page admin.Refused
				if err := p.call(c.Context(), "request.refused", in, &page); err != nil {
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
				rows := [][]string{{"AT", "STATUS", "TYPE", "FIELD", "MODEL", "KEY", "ADDRESS", "REQUEST"}}
				for i := range all.Data {
					r := &all.Data[i]
					rows = append(rows, []string{utcText(r.At), strconv.Itoa(r.Status), r.Type, r.Param, r.Model, r.KeyID, r.Address, cmp.Or(r.RequestID, r.ID)})
				}
				table(w, rows)
				printHours(w, all.Hours)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most `N` requests")
	return cmd
}

// printHours prints how many calls were refused in the last day and week.
func printHours(w io.Writer, hours []admin.RefusedCount) {
	var day, week int64
	for _, h := range hours {
		week += h.Calls
		if time.Since(h.Hour) < 24*time.Hour {
			day += h.Calls
		}
	}
	fmt.Fprintf(w, "%d refused in the last 24 hours, %d in the last 7 days.\n", day, week)
}

// accountSearchCmd finds accounts by what their owners can tell.
func (p *program) accountSearchCmd() *cobra.Command {
	in := admin.SearchQuery{}
	cmd := &cobra.Command{
		Use: "search TERM", Short: "Find accounts by e-mail, id, last four of a key, or request id", Args: args("TERM"),
		Long:    "Find accounts. TERM is an e-mail address or its beginning, the id of an account or\nkey, the last four characters of a key, or a request id.",
		Example: "  sluice account search ana@\n  sluice account search k3Xq",
		RunE: func(c *cobra.Command, given []string) error {
			in.Term = given[0]
			var out admin.List[admin.Match]
			if err := p.call(c.Context(), "account.search", in, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"ACCOUNT", "E-MAIL", "PLAN", "STATUS", "FOUND BY"}}
				for _, m := range out.Data {
					by := m.By
					switch {
					case m.Key != nil:
						by = fmt.Sprintf("key %s …%s, %s", m.Key.ID, m.Key.LastFour, m.Key.Status)
					case m.RequestID != "":
						by = "request " + m.RequestID
					}
					rows = append(rows, []string{m.AccountID, m.Email, m.Plan, m.Status, by})
				}
				table(w, rows)
				if out.Next != "" {
					fmt.Fprintf(w, "There are more: --after %s\n", out.Next)
				}
			})
		},
	}
	cmd.Flags().StringVar(&in.After, "after", "", "continue after the `page` that said so")
	return cmd
}

// accountSignalsCmd prints what in an account's calls is a reason to look at it.
func (p *program) accountSignalsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "signals ID|E-MAIL", Short: "Show patterns in an account's calls that hint at resale or proxying", Args: args("ID"),
		Long: "Show patterns in an account's calls that its score does not tell: sudden growth, a\nplan's limits used for hours, a key used from many networks, calls at even\nintervals. They are reasons to look, and have no effect by themselves.",
		RunE: func(c *cobra.Command, given []string) error {
			var out signal.Report
			if err := p.call(c.Context(), "account.signals", admin.Target{Ref: given[0]}, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
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
				rows := [][]string{{"NETWORK", "CALLS", "KEYS"}}
				for _, n := range out.Networks {
					rows = append(rows, []string{n.Prefix, strconv.Itoa(n.Calls), strconv.Itoa(n.Keys)})
				}
				table(w, rows)
			})
		},
	}
}
