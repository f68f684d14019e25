package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/httpapi"
)

// proxiedFile is where the data folder remembers that a request came through a proxy or for another host. Whoever
// deletes it and restarts begins anew.
const proxiedFile = "proxied"

// proxied is what the data folder remembers of the first foreign request; empty: there was none.
func proxied(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, proxiedFile))
	if err != nil && os.IsNotExist(err) {
		return ""
	}
	if text := strings.TrimSpace(string(raw)); text != "" {
		return text
	}
	return "an earlier request" // the file is there: what is in it does not matter
}

// watchLocal begins to watch for requests that do not come from this machine.
func (a *App) watchLocal() {
	dir := a.facts.dir.Path()
	a.local = httpapi.NewLocal(proxied(dir) != "", func(why string) {
		text := fmt.Sprintf("%s: %q\n", time.Now().UTC().Format(time.RFC3339), why)
		if err := os.WriteFile(filepath.Join(dir, proxiedFile), []byte(text), 0o600); err != nil {
			a.log.Error("it could not be stored that requests come through a proxy; a restart would open sign-up and the test card again for a moment", "error", err.Error())
		}
		if open := implied(a.settings.Load().config); len(open) > 0 {
			a.log.Warn("a request came through a proxy or for another host: what is open on a developer's machine is closed from now on",
				"by", why, "closed", strings.Join(open, ", "), "hint", "set public_url, signup and billing.processor")
		}
	})
}

// implied are the doors that are open because nobody has said otherwise and only this machine calls.
func implied(cfg *config.Config) (open []string) {
	if cfg.Signup == "" && cfg.SignupMode(true) == "open" {
		open = append(open, "sign-up")
	}
	if cfg.Billing.Processor == "" && cfg.PaymentProcessor(true) == "testpay" {
		open = append(open, "the test card")
	}
	return open
}

// doors says who may sign up and pay how, where nobody has configured it.
func (d *doctor) doors() {
	open := implied(d.cfg)
	since := proxied(d.cfg.Data)
	switch {
	case len(open) == 0:
	case since == "":
		d.ok("doors", "%s: open, as on a developer's machine, until the first request comes through a proxy or for another host; set signup and billing.processor to decide it yourself", strings.Join(open, " and "))
	default:
		d.add(StateWarning, "doors", "Set public_url, signup and billing.processor. (Without a proxy: delete "+filepath.Join(d.cfg.Data, proxiedFile)+" and restart.)",
			"%s: closed, because a request came through a proxy or for another host (%s)", strings.Join(open, " and "), since)
	}
}
