package app

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
	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/sqlstore"
)

// Finding is one thing the doctor looked at.
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

// Examine looks at everything a configuration names, changes nothing, and says what it found.
func Examine(ctx context.Context, cfg *config.Config) []Finding {
	d := &doctor{cfg: cfg}
	d.configuration()
	d.dataFolder()
	d.server(ctx)
	d.database(ctx)
	d.address()
	d.doors()
	d.certificate()
	d.providers(ctx)
	d.targets()
	d.catalog()
	return d.findings
}

type doctor struct {
	cfg      *config.Config
	running  *admin.Status // of the server on the data folder, if one runs
	findings []Finding
}

func (d *doctor) ok(subject, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: StateOK, Message: fmt.Sprintf(format, args...)})
}

func (d *doctor) add(state, subject, advice, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: state, Message: fmt.Sprintf(format, args...), Advice: advice})
}

func (d *doctor) configuration() {
	file := d.cfg.File()
	if file == "" {
		d.ok("configuration", "no file; the built-in defaults, the environment and flags apply")
	} else {
		d.ok("configuration", "%s is valid", file)
	}
	for _, w := range d.cfg.Warnings() {
		d.add(StateWarning, "configuration", "", "%s", w)
	}
}

func (d *doctor) dataFolder() {
	info, err := os.Stat(d.cfg.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.add(StateWarning, "data folder", "Run \"sluice serve\": the first start makes it.", "%s does not exist yet", d.cfg.Data)
	case err != nil:
		d.add(StateProblem, "data folder", "Give sluice the right to read and write it.", "%s cannot be read: %v", d.cfg.Data, err)
	case !info.IsDir():
		d.add(StateProblem, "data folder", "Name another folder in data, or remove the file.", "%s is not a folder", d.cfg.Data)
	default:
		if err := datadir.Check(d.cfg.Data); err != nil {
			d.add(StateProblem, "data folder", "Type: chmod -R go-rwx "+d.cfg.Data, "the server does not start: %v", err)
			return
		}
		if free, ok := freeBytes(d.cfg.Data); ok && free < 1<<30 {
			d.add(StateWarning, "data folder", "Make room on this disk.", "only %d MB are free where %s lies", free>>20, d.cfg.Data)
		} else {
			d.ok("data folder", "%s", d.cfg.Data)
		}
	}
}

func (d *doctor) server(ctx context.Context) {
	client, err := admin.Dial(ctx, d.cfg.Data)
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
	if _, err := os.Stat(d.cfg.Data + "/" + sqlstore.File); d.cfg.Database == "sqlite" && err != nil {
		d.ok("database", "SQLite; the first start creates it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	in, err := sqlstore.Inspect(ctx, d.cfg.Database, d.cfg.Data)
	switch {
	case err != nil:
		d.add(StateProblem, "database", "Check that it runs and that the address, user and password in database are right.", "%s does not answer: %v", in.Engine, err)
	case in.Version > in.Known:
		d.add(StateProblem, "database", "Use the newer sluice that set it up.", "%s is at version %d; this program knows versions up to %d", in.Engine, in.Version, in.Known)
	case in.Version < in.Known:
		d.add(StateWarning, "database", "The next start brings it up to date; take a backup before if it matters.", "%s is at version %d of %d", in.Engine, in.Version, in.Known)
	default:
		d.ok("database", "%s answers and is up to date (version %d)", in.Engine, in.Version)
	}
	if err == nil {
		d.secret(in.Sealed)
	}
}

// secret looks whether what is sealed in the database can be opened.
func (d *doctor) secret(sealed []byte) {
	file, err := datadir.Secret(d.cfg.Data)
	secrets := usableSecrets(d.cfg, file)
	opens := slices.ContainsFunc(secrets, func(s string) bool { return sqlstore.Opens(sealed, s) })
	const keep = "Keep a copy of it apart from backups: they cannot be read without it."
	switch {
	case err != nil:
		d.add(StateProblem, "secret", "Type: chmod go-rwx "+filepath.Join(d.cfg.Data, datadir.SecretFile), "%v", err)
	case sealed == nil:
		d.ok("secret", "nothing is sealed yet; the next start seals second-factor secrets and the like")
	case len(secrets) == 0:
		d.add(StateProblem, "secret", upperFirst(secretAdvice)+".", "the database is sealed, and there is no secret that opens it")
	case !opens:
		d.add(StateProblem, "secret", upperFirst(secretAdvice)+".", "the database is sealed under another secret than %s", secretSource(d.cfg, d.cfg.Data))
	case d.cfg.Secret != "" && file != "" && sqlstore.Opens(sealed, d.cfg.Secret.Reveal()):
		d.ok("secret", "SLUICE_SECRET opens what is sealed; %s beside it is not used and may be deleted", datadir.SecretFile)
	case d.cfg.Secret == "" && d.cfg.Database != "sqlite":
		d.add(StateWarning, "secret", "Set SLUICE_SECRET to what it holds on every node, or copy it into each data folder.", "%s opens what is sealed; other nodes on this database need the same", datadir.SecretFile)
	case d.cfg.Secret != "":
		d.ok("secret", "SLUICE_SECRET opens what is sealed. %s", keep)
	default:
		d.ok("secret", "%s opens what is sealed. %s", datadir.SecretFile, keep)
	}
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (d *doctor) address() {
	if d.running == nil {
		l, err := net.Listen("tcp", d.cfg.Listen)
		if err != nil {
			d.add(StateProblem, "address", "Stop what uses it, or choose another address in listen.", "%s cannot be used: %v", d.cfg.Listen, cause(err))
			return
		}
		l.Close()
		d.ok("address", "%s is free", d.cfg.Listen)
	}
	d.ok("address", "callers use %s/v1", d.cfg.Origin())
}

func (d *doctor) certificate() {
	if !d.cfg.TLS.Enabled() {
		return
	}
	raw, err := os.ReadFile(d.cfg.TLS.Cert)
	block, _ := pem.Decode(raw)
	if err != nil || block == nil {
		d.add(StateProblem, "certificate", "Put a PEM certificate there.", "%s cannot be read", d.cfg.TLS.Cert)
		return
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.add(StateProblem, "certificate", "Put a PEM certificate there.", "%s is not a certificate: %v", d.cfg.TLS.Cert, err)
		return
	}
	left := time.Until(cert.NotAfter)
	switch {
	case left < 0:
		d.add(StateProblem, "certificate", "Renew it; sluice takes the new file over by itself.", "it ended on %s", cert.NotAfter.Format(time.DateOnly))
	case left < 14*24*time.Hour:
		d.add(StateWarning, "certificate", "Renew it; sluice takes the new file over by itself.", "it ends on %s", cert.NotAfter.Format(time.DateOnly))
	default:
		d.ok("certificate", "valid until %s", cert.NotAfter.Format(time.DateOnly))
	}
}

func (d *doctor) catalog() {
	s, err := newSettings(d.cfg, nil)
	if err != nil {
		d.add(StateProblem, "models", "Mend the models in the configuration.", "%v", err)
		return
	}
	sandbox := 0
	for _, m := range s.catalog.Models() {
		if m.Sandbox {
			sandbox++
		}
	}
	configured := len(d.cfg.Models)
	if configured+sandbox == 0 {
		d.add(StateWarning, "models", "Add models to the configuration, or set sandbox: true.", "there is none that could answer")
		return
	}
	d.ok("models", "%d configured, %d built-in sandbox, and the router %s", configured, sandbox, d.cfg.RouterID())
}
