package config

import (
	"encoding/base64"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Alerts say whom the operator's alerts go to.
type Alerts struct {
	// Addresses that get alerts by mail. Without `smtp` that mail is written to the log, as all mail.
	Email []string `yaml:"email"`

	// Webhooks that get alerts, signed as in the Standard Webhooks specification. They may be
	// inside your network.
	Webhooks []AlertWebhook `yaml:"webhooks"`

	// Hosts that the webhooks of customers may name although they are not public, or without TLS:
	// names or IP addresses, with or without a port.
	AllowHosts []string `yaml:"allow_hosts"`

	// How long settlements may wait for the database before that is an alert.
	JournalLag time.Duration `yaml:"journal_lag" default:"1m"`

	// How much space must be free on the disk of the data folder, in MiB. Less is an alert. 0 means
	// never.
	DiskFreeMiB int `yaml:"disk_free_mib" default:"1024"`
}

// AlertWebhook is one webhook of the operator.
type AlertWebhook struct {
	// A name for the log and the console: letters, digits and dashes.
	Name string `yaml:"name" required:"true"`

	// The URL that alerts are posted to.
	URL string `yaml:"url" required:"true"`

	// The secret that signs them, as the receiver has it: `whsec_` and base64. `sluice alert secret`
	// makes one. Keep it out of the file: write `${NAME}` for an environment variable.
	Secret Secret `yaml:"secret" required:"true"`

	// The events that it gets, such as `upstream.down`. If not set, all.
	Events []string `yaml:"events"`
}

// alertEvents are the types of the operator's events; a test in package app compares them with those of package alert.
var alertEvents = []string{
	"upstream.down", "upstream.up", "journal.growing", "journal.recovered", "disk.filling", "disk.recovered", "payment.failed", "account.review",
}

// AlertEvents returns the types of the operator's events.
func AlertEvents() []string { return slices.Clone(alertEvents) }

// alertNameLetters are what the name of a webhook is made of.
const alertNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// mostAlertTargets is how many addresses and webhooks the operator may have.
const mostAlertTargets = 20

func (r *record) checkAlerts(a *Alerts) {
	r.failIf(len(a.Email)+len(a.Webhooks) > mostAlertTargets, "alerts", "has %d addresses and webhooks; at most %d are called", len(a.Email)+len(a.Webhooks), mostAlertTargets)
	for i, address := range a.Email {
		path := index("alerts.email", i)
		if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address {
			r.fail(path, "%s is not a mail address; write one such as ops@example.com", r.shown(path, address))
		}
	}
	names := map[string]bool{}
	for i := range a.Webhooks {
		r.checkAlertWebhook(index("alerts.webhooks", i), &a.Webhooks[i], names)
	}
	for i, host := range a.AllowHosts {
		if path := index("alerts.allow_hosts", i); host == "" || strings.ContainsAny(host, "/@?#* \t\n") {
			r.fail(path, "%s is not a host; write a name or an address alone, such as hooks.example.com", r.shown(path, host))
		}
	}
	r.failIf(a.JournalLag < time.Second, "alerts.journal_lag", "must be at least 1s; got %s", a.JournalLag)
	r.failIf(a.DiskFreeMiB < 0, "alerts.disk_free_mib", "must be 0 (never) or more; got %d", a.DiskFreeMiB)
}

func (r *record) checkAlertWebhook(path string, w *AlertWebhook, names map[string]bool) {
	switch {
	case w.Name == "" || len(w.Name) > 40 || strings.Trim(w.Name, alertNameLetters) != "":
		r.fail(path+".name", "%s is not a name; use up to 40 letters, digits and dashes", r.shown(path+".name", w.Name))
	case names[w.Name]:
		r.fail(path+".name", "%s is used twice", r.shown(path+".name", w.Name))
	}
	names[w.Name] = true
	// A URL may contain a token, so messages do not quote it.
	if u, err := url.Parse(w.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(w.URL) > 2000 {
		r.fail(path+".url", "must be an address such as https://example.com/alerts: http or https, at most 2,000 bytes, without a user and without #")
	}
	encoded, ok := strings.CutPrefix(w.Secret.Reveal(), "whsec_")
	if raw, err := base64.StdEncoding.DecodeString(encoded); !ok || err != nil || len(raw) < 24 || len(raw) > 64 {
		r.fail(path+".secret", `must be "whsec_" and the base64 of 24 to 64 random bytes; make one with: sluice alert secret`)
	}
	for i, event := range w.Events {
		if at := index(path+".events", i); !slices.Contains(alertEvents, event) {
			r.fail(at, "%s is not an event; those are %s", r.shown(at, event), strings.Join(alertEvents, ", "))
		}
	}
}
