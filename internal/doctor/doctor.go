// Package doctor examines a site: its configuration, data folder, server, database, secret, address, certificate,
// providers and models. It reports what it found and what to do about it.
//
// It changes nothing. It does not know the configuration or the store: app describes the site in a Site, and the
// doctor judges what it sees there.
package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/internal/admin"
	"sluice/internal/buildinfo"
	"sluice/internal/datadir"
)

const (
	// databasePatience is how long a database may take to answer.
	databasePatience = 5 * time.Second
	// leastFree is how many bytes of disk space must be free.
	leastFree = 1 << 30
	// renewBefore is how long before its end a certificate should be renewed.
	renewBefore = 14 * 24 * time.Hour
)

// Site is what is examined.
type Site struct {
	File     string   // the configuration file; empty if there is none
	Warnings []string // about the configuration

	Data     string // the data folder
	Database Database
	Secret   string // the configured secret; empty if it is not set

	Listen      string   // the address of the server
	Origin      string   // the URL that callers use, without a path
	Certificate string   // the certificate file; empty if TLS is off
	Doors       []string // what is open because the configuration does not decide it

	Providers []Provider
	// Models counts the models, or returns what is wrong with them.
	Models func() (Models, error)
}

// Database is where the site stores its data.
type Database struct {
	SQLite bool
	File   string // the name of the SQLite file inside the data folder
	// Inspect looks at the database without changing it.
	Inspect func(ctx context.Context) (Inspection, error)
}

// Inspection is the state of a database.
type Inspection struct {
	Engine         string
	Version, Known int64 // of its tables, and the newest that this program knows
	Sealed         bool  // it holds a data key that is sealed under a secret
	Unserved       error // why no server may use it; nil if one may
	// Opens reports whether a secret opens the data key.
	Opens func(secret string) bool
}

// Models are the models that the configuration gives.
type Models struct {
	Configured, Sandbox int
	Router              string // its id
}

// Finding is one thing that the doctor looked at.
type Finding struct {
	Subject string `json:"subject"`
	State   string `json:"state"` // ok, warning or problem
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// The states of a finding.
const (
	StateOK      = "ok"
	StateWarning = "warning"
	StateProblem = "problem"
)

// Examine looks at everything and returns a finding for each.
func Examine(ctx context.Context, s *Site) []Finding {
	d := &doctor{site: s}
	d.configuration()
	d.dataFolder()
	d.server(ctx)
	d.database(ctx)
	d.address()
	d.doors()
	d.certificate()
	d.providers(ctx)
	d.targets()
	d.models()
	return d.findings
}

type doctor struct {
	site     *Site
	running  *admin.Status // of the server on the data folder; nil if none runs
	findings []Finding
}

func (d *doctor) ok(subject, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: StateOK, Message: fmt.Sprintf(format, args...)})
}

func (d *doctor) add(state, subject, advice, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: state, Message: fmt.Sprintf(format, args...), Advice: advice})
}

func (d *doctor) configuration() {
	if d.site.File == "" {
		d.ok("configuration", "no file; the built-in defaults, the environment and flags apply")
	} else {
		d.ok("configuration", "%s is valid", d.site.File)
	}
	for _, w := range d.site.Warnings {
		d.add(StateWarning, "configuration", "", "%s", w)
	}
}

func (d *doctor) dataFolder() {
	info, err := os.Stat(d.site.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.add(StateWarning, "data folder", "Run \"sluice serve\": the first start makes it.", "%s does not exist yet", d.site.Data)
	case err != nil:
		d.add(StateProblem, "data folder", "Give sluice the right to read and write it.", "%s cannot be read: %v", d.site.Data, err)
	case !info.IsDir():
		d.add(StateProblem, "data folder", "Name another folder in data, or remove the file.", "%s is not a folder", d.site.Data)
	default:
		if err := datadir.Check(d.site.Data); err != nil {
			d.add(StateProblem, "data folder", "Type: chmod -R go-rwx "+d.site.Data, "the server does not start: %v", err)
			return
		}
		if free, ok := datadir.Free(d.site.Data); ok && free < leastFree {
			d.add(StateWarning, "data folder", "Make room on this disk.", "only %d MB are free where %s lies", free>>20, d.site.Data)
		} else {
			d.ok("data folder", "%s", d.site.Data)
		}
	}
}

func (d *doctor) server(ctx context.Context) {
	client, err := admin.Dial(ctx, d.site.Data)
	if err != nil {
		d.ok("server", "none runs on this data folder")
		return
	}
	var st admin.Status
	if err := client.Call(ctx, "status", admin.Empty{}, &st); err != nil {
		d.add(StateProblem, "server", "Look into its log; restart it if it does not recover.", "it holds the data folder but does not answer: %v", err)
		return
	}
	d.running = &st
	d.ok("server", "runs since %s as process %d on %s, with %d accounts and %d models",
		st.StartedAt.Local().Format("2006-01-02 15:04"), st.PID, st.Listen, st.Accounts, st.Models)
	if st.Version != buildinfo.Version {
		d.add(StateWarning, "server", "Restart the server with this program.", "it is version %s and this program is %s", st.Version, buildinfo.Version)
	}
}

func (d *doctor) database(ctx context.Context) {
	if d.running != nil && d.running.DBError != "" {
		d.add(StateProblem, "database", "Start the database or mend the connection; known keys keep working meanwhile.", "the server cannot reach %s: %s", d.running.Database, d.running.DBError)
		return
	}
	if _, err := os.Stat(filepath.Join(d.site.Data, d.site.Database.File)); d.site.Database.SQLite && err != nil {
		d.ok("database", "SQLite; the first start creates it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, databasePatience)
	defer cancel()
	in, err := d.site.Database.Inspect(ctx)
	switch {
	case err != nil:
		d.add(StateProblem, "database", "Check that it runs and that the address, user and password in database are right.", "%s does not answer: %v", in.Engine, err)
	case in.Version > in.Known:
		d.add(StateProblem, "database", "Use the newer sluice that set it up.", "%s is at version %d; this program knows versions up to %d", in.Engine, in.Version, in.Known)
	case in.Unserved != nil:
		d.add(StateProblem, "database", "See \"From SQLite to PostgreSQL\" in docs/operations.md.", "%v", in.Unserved)
	case in.Version < in.Known:
		d.add(StateWarning, "database", "The next start brings it up to date; take a backup before if it matters.", "%s is at version %d of %d", in.Engine, in.Version, in.Known)
	default:
		d.ok("database", "%s answers and is up to date (version %d)", in.Engine, in.Version)
	}
	if err == nil {
		d.secret(in)
	}
}

// secret checks that a secret is here that opens what is sealed in the database.
func (d *doctor) secret(in Inspection) {
	secrets, err := datadir.ReadSecrets(d.site.Data, d.site.Secret)
	opens := slices.ContainsFunc(secrets.All(), in.Opens)
	const keep = "Keep a copy of it apart from backups: they cannot be read without it."
	switch {
	case err != nil:
		d.add(StateProblem, "secret", "Type: chmod go-rwx "+filepath.Join(d.site.Data, datadir.SecretFile), "%v", err)
	case !in.Sealed:
		d.ok("secret", "nothing is sealed yet; the next start seals second-factor secrets and the like")
	case len(secrets.All()) == 0:
		d.add(StateProblem, "secret", upperFirst(datadir.SecretAdvice)+".", "the database is sealed, and there is no secret that opens it")
	case !opens:
		d.add(StateProblem, "secret", upperFirst(datadir.SecretAdvice)+".", "the database is sealed under another secret than %s", secrets.Source())
	case secrets.Configured != "" && secrets.File != "" && in.Opens(secrets.Configured):
		d.ok("secret", "SLUICE_SECRET opens what is sealed; %s beside it is not used and may be deleted", datadir.SecretFile)
	case secrets.Configured == "" && !d.site.Database.SQLite:
		d.add(StateWarning, "secret", "Set SLUICE_SECRET to what it holds on every node, or copy it into each data folder.", "%s opens what is sealed; other nodes on this database need the same", datadir.SecretFile)
	case secrets.Configured != "":
		d.ok("secret", "SLUICE_SECRET opens what is sealed. %s", keep)
	default:
		d.ok("secret", "%s opens what is sealed. %s", datadir.SecretFile, keep)
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (d *doctor) address() {
	if d.running == nil {
		l, err := net.Listen("tcp", d.site.Listen)
		if err != nil {
			d.add(StateProblem, "address", "Stop what uses it, or choose another address in listen.", "%s cannot be used: %v", d.site.Listen, Cause(err))
			return
		}
		l.Close()
		d.ok("address", "%s is free", d.site.Listen)
	}
	d.ok("address", "callers use %s/v1", d.site.Origin)
}

// doors says who may sign up and how they may pay, if the configuration does not decide it.
func (d *doctor) doors() {
	open := strings.Join(d.site.Doors, " and ")
	since := datadir.Proxied(d.site.Data)
	switch {
	case open == "":
	case since == "":
		d.ok("doors", "%s: open, as on a developer's machine, until the first request comes through a proxy or for another host; set signup and billing.processor to decide it yourself", open)
	default:
		d.add(StateWarning, "doors", "Set public_url, signup and billing.processor. (Without a proxy: delete "+filepath.Join(d.site.Data, datadir.ProxiedFile)+" and restart.)",
			"%s: closed, because a request came through a proxy or for another host (%s)", open, since)
	}
}

func (d *doctor) certificate() {
	if d.site.Certificate == "" {
		return
	}
	raw, err := os.ReadFile(d.site.Certificate)
	block, _ := pem.Decode(raw)
	if err != nil || block == nil {
		d.add(StateProblem, "certificate", "Put a PEM certificate there.", "%s cannot be read", d.site.Certificate)
		return
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.add(StateProblem, "certificate", "Put a PEM certificate there.", "%s is not a certificate: %v", d.site.Certificate, err)
		return
	}
	left := time.Until(cert.NotAfter)
	switch {
	case left < 0:
		d.add(StateProblem, "certificate", "Renew it; sluice takes the new file over by itself.", "it ended on %s", cert.NotAfter.Format(time.DateOnly))
	case left < renewBefore:
		d.add(StateWarning, "certificate", "Renew it; sluice takes the new file over by itself.", "it ends on %s", cert.NotAfter.Format(time.DateOnly))
	default:
		d.ok("certificate", "valid until %s", cert.NotAfter.Format(time.DateOnly))
	}
}

func (d *doctor) models() {
	m, err := d.site.Models()
	switch {
	case err != nil:
		d.add(StateProblem, "models", "Mend the models in the configuration.", "%v", err)
	case m.Configured+m.Sandbox == 0:
		d.add(StateWarning, "models", "Add models to the configuration, or set sandbox: true.", "there is none that could answer")
	default:
		d.ok("models", "%d configured, %d built-in sandbox, and the router %s", m.Configured, m.Sandbox, m.Router)
	}
}

// Cause returns what the operating system said, without the wrapping that repeats the address.
func Cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if sys, ok := errors.AsType[*os.SyscallError](op); ok {
			return sys.Err
		}
	}
	return err
}
