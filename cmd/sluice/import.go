package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/app/moving"
)

// importFlags are the flags of "config import".
type importFlags struct {
	moving.Options
	out, report string
	force       bool
}

// configImportCmd converts the configuration of another gateway. The result goes to the standard output and the report to
// the standard error, so that "sluice config import old.yaml > sluice.yaml" shows what a person should look at.
func (p *program) configImportCmd() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Convert the configuration of another gateway", Args: args("FILE"),
		Long: "Convert the configuration of LiteLLM, Portkey, new-api, one-api or OpenRouter, and print ours.\n" +
			"A report on the standard error says what was taken, what was changed, what has no\ncounterpart, and what is missing. Every value of the file is in it.\n" +
			"FILE may be - for the standard input. Keys become references to variables, unless\n--secrets or --with-secrets is given. The result has passed \"sluice config check\".",
		Example: "  sluice config import litellm.yaml > sluice.yaml\n  sluice config import litellm.yaml --out sluice.yaml --secrets keys\n" +
			"  sluice config import --from portkey --model gpt-5-mini config.json\n  sluice config import --json --report report.json channels.json > sluice.yaml",
		RunE: func(c *cobra.Command, given []string) error { return p.configImport(c, given[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.From, "from", "", "`format` of the file: "+strings.Join(moving.Formats(), ", ")+" (default: guessed)")
	flags.StringVar(&f.out, "out", "", "`file` to write instead of the standard output")
	flags.BoolVar(&f.force, "force", false, "replace files that exist")
	flags.StringVar(&f.report, "report", "", "`file` for the report instead of the standard error")
	flags.StringVar(&f.Plan, "plan", "free", "`tier` of all models: free, basic or premium")
	flags.StringVar(&f.Model, "model", "", "`id` of the model, for a Portkey configuration that names none")
	flags.StringVar(&f.SecretFolder, "secrets", "", "`folder` to write the keys of the file to, one file each; the result refers to them")
	flags.BoolVar(&f.WithSecrets, "with-secrets", false, "write the keys of the file into the result, in clear")
	return cmd
}

// check returns what is wrong with the flags.
func (f *importFlags) check() error {
	switch {
	case f.WithSecrets && f.SecretFolder != "":
		return errors.New("--secrets and --with-secrets exclude each other")
	case !slices.Contains([]string{"free", "basic", "premium"}, f.Plan):
		return fmt.Errorf("%q is not a tier of models; it must be free, basic or premium", f.Plan)
	case f.From != "" && !slices.Contains(moving.Formats(), f.From):
		return fmt.Errorf("%q is not a known format; it must be one of %s", f.From, strings.Join(moving.Formats(), ", "))
	}
	return nil
}

// configImport runs "config import".
func (p *program) configImport(c *cobra.Command, file string, f *importFlags) error {
	if err := f.check(); err != nil {
		return misused(c, err)
	}
	text, err := readImport(file)
	if err != nil {
		return err
	}
	f.Name = file
	f.ReadFile = func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && file != "-" {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return readImport(name)
	}
	res, err := moving.Import(text, f.Options)
	if err != nil {
		return err
	}
	if err := p.writeSecrets(res, f); err != nil {
		return err
	}
	if f.out == "" {
		err = p.write(res.YAML)
	} else {
		err = writeNew(f.out, res.YAML, f.force)
	}
	if err != nil {
		return err
	}
	return p.writeReport(res, f)
}

// readImport reads a file of another gateway, or the standard input.
func readImport(file string) ([]byte, error) {
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	// One byte more tells a file that is too large from one that just fits.
	return io.ReadAll(io.LimitReader(in, moving.MaxBytes+1))
}

// writeNew writes a file that only its owner can read. It replaces one that exists only if told to.
func writeNew(file, text string, force bool) error {
	how := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if force {
		how = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	f, err := os.OpenFile(file, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; choose another file, or replace it with --force", file)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// writeSecrets writes the keys of the source to files, if the operator wants that.
func (p *program) writeSecrets(res *moving.Result, f *importFlags) error {
	if f.SecretFolder == "" || len(res.Secrets) == 0 {
		return nil
	}
	if err := os.MkdirAll(f.SecretFolder, 0o700); err != nil {
		return err
	}
	for _, s := range res.Secrets {
		if err := writeNew(filepath.Join(f.SecretFolder, s.Name), s.Reveal()+"\n", f.force); err != nil {
			return err
		}
	}
	return nil
}

// writeReport writes the report to the standard error or a file.
func (p *program) writeReport(res *moving.Result, f *importFlags) error {
	var b strings.Builder
	if p.asJSON {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		out := map[string]any{"from": res.From, "providers": res.Providers, "models": res.Models, "warnings": append([]string{}, res.Warnings...), "report": res.Report}
		if err := enc.Encode(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(&b, "Read as %s. Providers: %d. Models: %d. With the variables that it names, the result passes \"sluice config check\".\n", res.From, res.Providers, res.Models)
		res.Report.Write(&b)
		for _, w := range res.Warnings {
			fmt.Fprintf(&b, "! %s\n", w)
		}
	}
	if f.report != "" {
		return writeNew(f.report, b.String(), f.force)
	}
	_, err := io.WriteString(p.stderr, b.String())
	return err
}
