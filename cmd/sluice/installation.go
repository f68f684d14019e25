package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/app/config"
	"sluice/internal/operate/admin"
)

// The places of a package or of deploy/systemd, below the root of the machine. The unit sets variables for the
// server; commands that people type must find the same installation without them.
const (
	machineConfig      = "/etc/sluice/sluice.yaml"
	machineEnvironment = "/etc/sluice/environment"
	machineData        = "/var/lib/sluice"
	machineUser        = "sluice"
)

// find decides which installation the command is about: what flags, variables or the working directory name,
// or else the one of the machine. It says so if it is the latter, because nothing on the command line does. serve does
// not call it: a server starts where it is told to.
func (p *program) find() error {
	if p.found {
		return nil
	}
	p.found = true
	if p.configPath != "" || p.variable("SLUICE_CONFIG") != "" || exists("sluice.yaml") {
		return nil
	}
	data := filepath.Join(p.machine, machineData)
	switch named := p.setting(p.overrides["data"], "SLUICE_DATA"); {
	case named != "" && named != data, named == "" && exists("data"):
		return nil
	}
	file := filepath.Join(p.machine, machineConfig)
	_, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return p.foreign()
	case err != nil: // there may be data without a file
		if file = ""; !exists(data) {
			return nil
		}
	}
	variables, err := readEnvironment(filepath.Join(p.machine, machineEnvironment))
	if errors.Is(err, fs.ErrPermission) {
		return p.foreign()
	}
	if err != nil {
		return err
	}
	p.configPath = file
	// What the operator has set on the command line wins over the file of the unit.
	for _, v := range append(variables, "SLUICE_DATA="+data) {
		if name, _, _ := strings.Cut(v, "="); p.variable(name) == "" {
			p.environ = append(slices.Clip(p.environ), v)
		}
	}
	if file != "" {
		file += ", "
	}
	fmt.Fprintf(p.stderr, "sluice: using the installation of this machine: %s%s\n", file, data)
	return nil
}

// foreign returns what somebody is told who may not read the installation of the machine.
func (p *program) foreign() error {
	return fmt.Errorf("the installation of this machine is in %s and %s, which you may not read; run the command as its user: sudo -u %s sluice %s\n"+
		"For another installation, use --config or --data", filepath.Dir(filepath.Join(p.machine, machineConfig)), filepath.Join(p.machine, machineData), machineUser, strings.Join(p.args, " "))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// readEnvironment reads the variables of a file that systemd also reads: a NAME=value on each line, perhaps in quotes,
// and comments. No file means no variables.
func readEnvironment(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue // systemd ignores it, too
		}
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		out = append(out, strings.TrimSpace(name)+"="+value)
	}
	return out, nil
}

// source returns where the settings come from.
func (p *program) source() config.Source {
	return config.Source{Path: p.configPath, Environ: p.environ, Flags: p.overrides}
}

// load reads the configuration from the file, the environment and the flags; later ones win. Each command
// calls it itself, so that --help and version work with a broken configuration.
func (p *program) load() (*config.Config, error) {
	if err := p.find(); err != nil {
		return nil, err
	}
	return config.Load(p.source())
}

// dial returns a client of the server on the data folder, or nil if none runs. It needs no more of the configuration
// than the folder: settings may be wrong, and variables that only the server has may be missing. data is empty if not
// even the folder is known.
func (p *program) dial(ctx context.Context) (client *admin.Client, data string, err error) {
	if err := p.find(); err != nil {
		return nil, "", err
	}
	data, err = config.DataFolder(p.source())
	if err != nil {
		return nil, "", nil // load says what is wrong
	}
	if client, err = admin.Dial(ctx, data); err != nil {
		return nil, data, nil
	}
	return client, data, nil
}

// origin returns where callers reach the server on the data folder. Commands that send a key use it: another program
// may listen on the address that the configuration here names.
func (p *program) origin(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	client, data, err := p.dial(ctx)
	if err == nil && client == nil && data == "" {
		_, err = p.load()
	}
	if err != nil {
		return "", err
	}
	if client == nil {
		return "", fmt.Errorf("no server is running on %s; start it, or name the service with --url", data)
	}
	st, err := p.ops.StatusShow.Call(ctx, client, admin.Empty{})
	return st.Origin, err
}
