package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
)

// modelsCmd prints the catalog: of the running server, or as the configuration defines it if
// no server is running. With --json it prints the catalog in the form of GET /v1/models
// (docs/api.md#models).
func (p *program) modelsCmd() *cobra.Command {
	var verbose, refresh bool
	cmd := &cobra.Command{
		Use: "models", Short: "List the available models", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			// With --refresh the server asks every provider, which may take a while.
			ctx, cancel := context.WithTimeout(c.Context(), adminPatience)
			defer cancel()
			client, _, err := p.dial(ctx)
			if err != nil {
				return err
			}
			if client == nil { // no server runs
				cfg, err := p.load()
				if err != nil {
					return err
				}
				if client, err = app.Catalog(cfg); err != nil {
					return err
				}
			}
			listing, err := admin.Models(ctx, client, verbose, refresh)
			if err != nil {
				return err
			}
			// Only the table needs the fields; --json prints the bytes as they came.
			var list modelList
			if err := json.Unmarshal(listing.JSON, &list); err != nil {
				return err
			}
			return p.print(listing.JSON, func(w io.Writer) { printModels(w, list, listing.State, verbose) })
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show provider and description")
	cmd.Flags().BoolVar(&refresh, "refresh", false, "first update the list from the providers and from model servers on this machine")
	cmd.AddCommand(p.modelsKnownCmd(), p.modelsMoveCmd(), p.modelsMoveBackCmd(), p.ordersCmd("moves", p.ops.ModelsMoves, "List the models that were moved or will be"))
	return cmd
}

// modelsMoveCmd gives a model another tier. The change is in the log of changes, also before it takes effect.
func (p *program) modelsMoveCmd() *cobra.Command {
	in := admin.ModelMove{}
	var starts time.Duration
	cmd := does(p, &cobra.Command{
		Use: "move MODEL TIER", Short: "Move a model to another tier",
		Long: `Move a model to the tier free, basic or premium, on all servers of the
installation. With --in the move is announced first: in GET /v1/catalog/changes
and in the member "upcoming" of the model. It holds until the model is moved
again or back, whatever the configuration says.`,
		Example: `  sluice models move lab/large premium --in 168h --reason "its price has doubled"`,
		PreRunE: func(*cobra.Command, []string) error {
			in.From, _ = span(starts, 0)
			return nil
		},
	}, p.ops.ModelsMove, &in, func(w io.Writer, o *steering.Order) {
		fmt.Fprintf(w, "%s needs %s from %s\n", o.Model, o.Plan, timeText(&o.From))
	}, &in.Model, &in.Plan)
	cmd.Flags().DurationVar(&starts, "in", 0, "`when` it takes effect, such as 168h (default at once)")
	return addWhy(cmd, &in.Reason)
}

func (p *program) modelsMoveBackCmd() *cobra.Command {
	in := admin.ModelMove{}
	return addWhy(does(p, &cobra.Command{Use: "move-back MODEL", Short: "Give a model its configured tier again"},
		p.ops.ModelsMoveBack, &in, func(w io.Writer, o *steering.Order) { fmt.Fprintf(w, "%s has its configured tier\n", o.Model) }, &in.Model), &in.Reason)
}

// modelList is the part of the catalog's JSON that is printed. The command reads the JSON of
// the API, so that both always show the same catalog.
type modelList struct {
	Data []struct {
		ID   string `json:"id"`
		Plan string `json:"plan"`
		// A json.Number keeps 0.5 and 2 as the API writes them.
		RequestMultiplier json.Number `json:"request_multiplier"`
		Permission        struct {
			ContextLength int  `json:"context_length"`
			MaxOutput     int  `json:"max_output"`
			ToolCalling   bool `json:"tool_calling"`
		} `json:"permission"`
		Provider    string `json:"provider"`
		Description string `json:"description"`
	} `json:"data"`
}

// printModels prints the catalog together with the state of each model, which is known only
// to a running server; without one those columns are empty.
func printModels(w io.Writer, list modelList, state []admin.ModelState, verbose bool) {
	// The catalog and the states are separate replies, joined by id.
	known := map[string]admin.ModelState{}
	for _, s := range state {
		known[s.ID] = s
	}
	// ACCESS, FROM and HEALTH come from the state; the others from the catalog.
	head := []string{"MODEL", "ACCESS", "COSTS", "CONTEXT", "OUTPUT", "TOOLS", "FROM", "HEALTH"}
	if verbose {
		head = append(head, "PROVIDER", "DESCRIPTION")
	}
	rows := [][]string{head}
	for _, m := range list.Data {
		tools := "no"
		if m.Permission.ToolCalling {
			tools = "yes"
		}
		s := known[m.ID]
		row := []string{m.ID, s.Access, m.RequestMultiplier.String(), fmt.Sprint(m.Permission.ContextLength), fmt.Sprint(m.Permission.MaxOutput), tools, s.From, s.Health}
		if verbose {
			row = append(row, m.Provider, m.Description)
		}
		rows = append(rows, row)
	}
	table(w, rows)
}
