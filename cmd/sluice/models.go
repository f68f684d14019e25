package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app"
)

func (p *program) modelsCmd() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use: "models", Short: "List the models callers can name", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), adminPatience)
			defer cancel()
			raw, err := app.Models(ctx, cfg, verbose)
			if err != nil {
				return err
			}
			var list modelList
			if err := json.Unmarshal(raw, &list); err != nil {
				return err
			}
			return p.print(raw, func(w io.Writer) { printModels(w, list, verbose) })
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show provider and description")
	return cmd
}

// modelList is the part of the catalog's reply that is printed.
type modelList struct {
	Data []struct {
		ID                string      `json:"id"`
		Plan              string      `json:"plan"`
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

func printModels(w io.Writer, list modelList, verbose bool) {
	head := []string{"MODEL", "PLAN", "COSTS", "CONTEXT", "OUTPUT", "TOOLS"}
	if verbose {
		head = append(head, "PROVIDER", "DESCRIPTION")
	}
	rows := [][]string{head}
	for _, m := range list.Data {
		tools := "no"
		if m.Permission.ToolCalling {
			tools = "yes"
		}
		row := []string{m.ID, m.Plan, m.RequestMultiplier.String(), fmt.Sprint(m.Permission.ContextLength), fmt.Sprint(m.Permission.MaxOutput), tools}
		if verbose {
			row = append(row, m.Provider, m.Description)
		}
		rows = append(rows, row)
	}
	table(w, rows)
}
