package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		in          Inspection
		err         error
		state, want string
	}{
		{"the same tables", Inspection{Version: 21, Known: 21}, nil, StateOK, "changes no table"},
		{"more tables", Inspection{Version: 20, Known: 22}, nil, StateWarning, "migrations 21 to 22 of SQLite; they only add"},
		{"many calls", Inspection{Version: 20, Known: 22, Calls: 5e6, Takes: 5 * time.Minute}, nil, StateWarning, "migrating the 5000000 calls that it holds takes about 5m0s"},
		{"the last that does not add", Inspection{Version: 16, Known: 22}, nil, StateWarning, "not all of them only add"},
		{"the first that adds", Inspection{Version: 17, Known: 22}, nil, StateWarning, "they only add"},
		{"an empty database", Inspection{Known: 22}, nil, StateWarning, "migrations 1 to 22"},
		{"newer tables", Inspection{Version: 23, Known: 22}, nil, StateProblem, "would refuse to start"},
		{"half a copy", Inspection{Version: 22, Known: 22, Unserved: errors.New("it was moved")}, nil, StateProblem, "it was moved"},
		{"no answer", Inspection{}, errors.New("connection refused"), StateProblem, "does not answer: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			if err := os.WriteFile(filepath.Join(data, "db"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			test.in.Engine, test.in.Opens = "SQLite", func(string) bool { return true }
			findings := Upgrade(t.Context(), &Site{
				Data: data, Changes: func(string) []string { return nil }, Models: func() (Models, error) { return Models{Configured: 1}, nil },
				Database: Database{SQLite: true, File: "db", Inspect: func(context.Context) (Inspection, error) { return test.in, test.err }},
			})
			for _, f := range findings {
				if f.Subject == "database" && f.State == test.state && strings.Contains(f.Message, test.want) {
					return
				}
			}
			t.Errorf("Upgrade = %+v, want a %s of the database that says %q", findings, test.state, test.want)
		})
	}
}

// What the configuration means to this version is said before an upgrade, and not to somebody who has nothing to upgrade.
func TestUpgradeChanges(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"db", "none yet"} {
		data := t.TempDir()
		if err := os.WriteFile(filepath.Join(data, "db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		findings := Upgrade(t.Context(), &Site{
			Data: data, Models: func() (Models, error) { return Models{Configured: 1}, nil },
			Changes: func(before string) []string { return []string{"tls.cert: since 9.9.9, it is read twice" + before} },
			Database: Database{SQLite: true, File: database, Inspect: func(context.Context) (Inspection, error) {
				return Inspection{Engine: "SQLite", Opens: func(string) bool { return true }}, nil
			}},
		})
		want := Finding{"configuration", StateWarning, "tls.cert: since 9.9.9, it is read twice", `"sluice config docs tls.cert" explains it.`}
		if got := slices.Contains(findings, want); got != (database == "db") {
			t.Errorf("Upgrade with the database %q = %+v, which has %+v: %v", database, findings, want, got)
		}
	}
}
