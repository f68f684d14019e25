package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/upstream/routing/learned"
)

// A file of weights that cannot be used leaves the router with its estimates: the server starts, says so once in the
// log, and /readyz notes it. A good file takes its place at the next reload.
func TestWeights(t *testing.T) {
	t.Parallel()
	builtin, err := learned.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	good := builtin.Append(nil)
	later := append([]byte(nil), good...)
	later[len("sluice-router\x00")]++ // the version
	for name, content := range map[string][]byte{"missing": nil, "truncated": good[:1000], "another version": later} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "router.bin")
			if content != nil {
				if err := os.WriteFile(file, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			n := newSite(t, fmt.Sprintf("router: {weights: %q}\n", file)).start(t)
			key := n.OwnerKey()
			const body = `{"model":"service/auto","messages":[{"role":"user","content":"How many eggs are left if 3 of 12 eggs are eaten every day for 2 days?"}]}`
			const unknown = `"difficulty":0.3,"difficulty_known":false`
			for range 2 {
				if r := n.request("POST", "/v1/route", key, body); r.status != 200 || !strings.Contains(r.body, unknown) {
					t.Errorf("POST /v1/route = %d %s, want the router's estimates", r.status, r.body)
				}
			}
			const note = "the file of learned weights cannot be used"
			if r := n.get("/readyz", ""); r.status != 200 || !strings.Contains(r.body, note) {
				t.Errorf("GET /readyz = %d %s, want 200 with a note that %s", r.status, r.body, note)
			}
			const line = "the router's weights cannot be used"
			if got := strings.Count(n.log.String(), line); got != 1 {
				t.Errorf("the log says %d times that %s, want once", got, line)
			}
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := n.Reload(); err != nil {
				t.Fatal(err)
			}
			if r := n.request("POST", "/v1/route", key, body); r.status != 200 || !strings.Contains(r.body, `"difficulty_known":true`) {
				t.Errorf("POST /v1/route after the file was replaced = %d %s, want the difficulty to be known", r.status, r.body)
			}
			if r := n.get("/readyz", ""); strings.Contains(r.body, note) {
				t.Errorf("GET /readyz after the file was replaced = %s", r.body)
			}
		})
	}
}
