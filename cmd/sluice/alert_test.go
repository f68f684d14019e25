package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/operate/alert"
)

// A server is killed again and again while it delivers alerts to a receiver that fails half of the time. None is lost,
// and each keeps its id.
func TestAlertsSurviveKill(t *testing.T) {
	t.Parallel()
	const tests = 20
	var mu sync.Mutex
	seen, accepted := map[string]int{}, map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		id := r.Header.Get("Webhook-Id")
		mu.Lock()
		defer mu.Unlock()
		if seen[id]++; seen[id] == 1 && len(seen)%2 == 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		accepted[id] = true
	}))
	defer receiver.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nmetrics_listen: \"\"\ndata: %s\nalerts: {webhooks: [{name: pager, url: %q, secret: %s}]}\n", filepath.Join(dir, "data"), receiver.URL, alert.NewSecret().Reveal())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sluice", append(args, "--config", file)...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=" + quickExit}
		return cmd
	}
	if err := install(dir, command().Env, filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for range tests {
		out, err := command("alert", "test", "--json").Output()
		var list []alert.Delivery
		if err != nil || json.Unmarshal(out, &list) != nil || len(list) != 1 {
			t.Fatalf("alert test = %s, %v", out, err)
		}
		wanted[list[0].ID] = true
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(accepted) }
	for kills, end := 0, time.Now().Add(patience); count() < tests; kills++ {
		if time.Now().After(end) {
			t.Fatalf("%d of %d alerts have arrived after %s and %d kills", count(), tests, patience, kills)
		}
		cmd := command("serve")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() { _ = cmd.Wait(); close(exited) }()
		// In the middle of the deliveries; the last servers get to finish what is left.
		before, tick := count(), time.NewTicker(time.Millisecond)
		for n := count(); n < tests && (kills >= 3 || n < before+3) && time.Now().Before(end); n = count() {
			<-tick.C
		}
		tick.Stop()
		_ = cmd.Process.Kill()
		<-exited
	}
	mu.Lock()
	defer mu.Unlock()
	if got := slices.Sorted(maps.Keys(accepted)); !slices.Equal(got, slices.Sorted(maps.Keys(wanted))) {
		t.Errorf("the ids %v arrived, want %v", got, slices.Sorted(maps.Keys(wanted)))
	}
}
