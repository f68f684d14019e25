package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Build builds the gateway like "make build" does.
func Build(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-gcflags=sluice/internal/web/...=-l", "-ldflags=-s -w", "-o", bin, "./cmd/sluice")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	return nil
}

// Run runs a command of the gateway on a data folder and returns its output.
func Run(ctx context.Context, bin, data string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, bin, append(args, "--data", data)...)
	cmd.Dir, cmd.Env = data, environment(data)
	out, err := cmd.Output()
	if err != nil {
		var printed []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			printed = exit.Stderr
		}
		return nil, fmt.Errorf("sluice %s %s: %w\n%s", args[0], args[1], err, printed)
	}
	return out, nil
}

// MasterKey creates a new master key for the owner of a data folder.
func MasterKey(ctx context.Context, bin, data string) (string, error) {
	out, err := Run(ctx, bin, data, "key", "regenerate-master", "--json")
	if err != nil {
		return "", err
	}
	var reply struct{ Key string }
	if err := json.Unmarshal(out, &reply); err != nil || reply.Key == "" {
		return "", fmt.Errorf("sluice key regenerate-master --json: no key in %q", out)
	}
	return reply.Key, nil
}
