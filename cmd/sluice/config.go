package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app/config"
)

//go:generate sh -c "go run . config docs > ../../docs/configuration.md"

// configCmd groups the commands that help to write a configuration. None of them needs a
// server. The reference and the example are part of the binary, so they always describe the
// version that is installed.
func (p *program) configCmd() *cobra.Command {
	return group("config", "Create, check and explain the configuration",
		&cobra.Command{
			Use: "init", Short: "Print a commented configuration file", Args: args(),
			Example: "  sluice config init > sluice.yaml",
			RunE:    func(*cobra.Command, []string) error { return p.write(config.Example()) },
		},
		&cobra.Command{
			Use: "docs [SECTION]", Short: "Print the reference of all settings, or of one or a section of them", Args: optional("SECTION"),
			Example: "  sluice config docs\n  sluice config docs providers\n  sluice config docs tls.cert",
			RunE: func(c *cobra.Command, given []string) error {
				if len(given) == 0 {
					return p.write(config.Docs())
				}
				text, err := config.DocsOf(given[0])
				if err != nil {
					return misused(c, err)
				}
				return p.write(text)
			},
		},
		p.configCheckCmd(), p.configImportCmd(),
	)
}

// configCheckCmd loads the configuration as serve would, with the file, the environment and
// the flags. Warnings do not make it fail, so a deployment can run it as a check.
func (p *program) configCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the configuration without starting", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			out := map[string]any{"file": cfg.File(), "ok": true, "warnings": append([]string{}, cfg.Warnings()...)}
			return p.print(out, func(w io.Writer) {
				if cfg.File() == "" {
					fmt.Fprintln(w, "There is no configuration file. The defaults, environment and flags are valid.")
				} else {
					fmt.Fprintf(w, "%s is valid.\n", cfg.File())
				}
				// A warning is about a setting that is valid but probably not wanted.
				for _, warning := range cfg.Warnings() {
					fmt.Fprintf(w, "! %s\n", warning)
				}
			})
		},
	}
}

// write prints text as it is, with or without --json.
func (p *program) write(text string) error {
	_, err := io.WriteString(p.stdout, text)
	return err
}
