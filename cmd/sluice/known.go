package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog/known"
)

// knownModel is a well-known model as the command prints it.
type knownModel struct {
	Kind        string   `json:"kind"`
	Upstream    string   `json:"upstream"`
	Name        string   `json:"name"`
	Context     int      `json:"context_length"`
	Output      int      `json:"max_output"`
	Inputs      []string `json:"inputs"`
	Efforts     []string `json:"efforts,omitempty"`
	Effort      string   `json:"default_effort,omitempty"`
	Input       *float64 `json:"input_price"` // dollars per million tokens; null if it is not known
	OutputPrice *float64 `json:"output_price"`
	Cached      *float64 `json:"cached_price"`
	Shutdown    string   `json:"shutdown_date,omitempty"`
	Replacement string   `json:"replacement,omitempty"`
	Note        string   `json:"note,omitempty"`
	Source      string   `json:"source"`
	Read        string   `json:"read"`
}

// modelsKnownCmd prints the list of well-known models. It needs neither a server nor a configuration.
func (p *program) modelsKnownCmd() *cobra.Command {
	return &cobra.Command{
		Use: "known", Short: "List what is known about vendors' models", Args: args(),
		Long: `List the well-known models: how much they read and write, the efforts that they
take, their prices in dollars per million tokens, and the day on which their
vendor retires them. Models that the server discovers, and what the configuration
leaves out, are filled in from this list. With --json each entry names its
source and the day on which it was read.`,
		RunE: func(*cobra.Command, []string) error {
			models, err := known.Models()
			if err != nil {
				return err
			}
			list := make([]knownModel, len(models))
			for i := range models {
				list[i] = knownModelOf(&models[i])
			}
			return columns[knownModel]{
				[]string{"KIND", "MODEL", "CONTEXT", "OUTPUT", "INPUT $", "OUTPUT $", "EFFORTS", "ENDS"},
				func(m *knownModel) []string {
					return []string{m.Kind, m.Upstream, strconv.Itoa(m.Context), strconv.Itoa(m.Output), priceText(m.Input), priceText(m.OutputPrice), strings.Join(m.Efforts, " "), m.Shutdown}
				},
			}.print(p, list)
		},
	}
}

// knownModelOf converts an entry of the list.
func knownModelOf(m *known.Model) knownModel {
	k := knownModel{
		Kind: m.Kind, Upstream: m.Upstream, Name: m.Description, Context: m.ContextLength, Output: m.MaxOutput, Inputs: []string{"text"},
		Effort: string(m.Default), Replacement: m.Successor, Note: m.Note, Source: m.Source, Read: m.Read.Format(time.DateOnly),
	}
	if m.Images {
		k.Inputs = append(k.Inputs, "image")
	}
	for _, e := range m.Efforts {
		k.Efforts = append(k.Efforts, string(e))
	}
	if !m.Shutdown.IsZero() {
		k.Shutdown = m.Shutdown.Format(time.DateOnly)
	}
	if e := m.Priced(time.Now()); e != nil {
		k.Input, k.OutputPrice, k.Cached = dollars(e.Rates[price.Input]), dollars(e.Rates[price.Output]), dollars(e.Rates[price.CacheRead])
	}
	return k
}

// dollars converts a price. It returns nil for one that is not known.
func dollars(r price.Rate) *float64 {
	if r == price.Unknown {
		return nil
	}
	d := float64(r) / 1e9
	return &d
}

// priceText formats a price; a price that is not known is empty.
func priceText(price *float64) string {
	if price == nil {
		return ""
	}
	return strconv.FormatFloat(*price, 'f', -1, 64)
}
