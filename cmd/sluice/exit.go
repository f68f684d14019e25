package main

import (
	"errors"

	"github.com/spf13/cobra"

	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/store/installation"
)

// The exit codes. Every command gives them the same meaning, which exitCodesTopic explains.
const (
	exitDone = iota
	exitFailed
	exitMisused
	exitNotFound
)

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case is[*usageError](err), is[*config.Error](err):
		return exitMisused
	case errors.Is(err, installation.ErrNone):
		return exitNotFound
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.NotFound {
		return exitNotFound
	}
	return exitFailed
}

// is reports whether an error is, or wraps, one of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// exitCodesTopic is a topic of the help. It runs nothing.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes of commands mean",
		Long: `Every command ends with one of these exit codes:

  0  It is done, or everything is in order.
  1  It failed or was refused, and the message says why. doctor, audit, ready,
     prices check, reconcile, upgrade check and restore --check also end with 1
     if what they looked at is not in order.
  2  The command line or the configuration has a mistake. Nothing was done; the
     same command fails until somebody corrects it.
  3  What the command is about does not exist: there is no installation in the
     data folder, or no such account, key, model, request or ticket.

A script may repeat a command that ended with 1, but not one that ended with 2
or 3. A command that was ended by a signal has the exit code that the shell
gives it, such as 130.`,
	}
}
