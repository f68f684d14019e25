// Package doctor examines a site: its configuration, data folder, server, database, Redis,
// secret, address, certificate, providers and models. It reports what it found and what to do about it.
//
// It changes nothing, so an operator can run it beside a working server. It does not know the
// configuration or the store: package settings describes the site in a Site, and the doctor judges what
// it sees there. Each method of doctor examines one subject and adds at least one finding, unless
// the subject does not apply to the site.
package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/datadir"
	"sluice/internal/kit/excerpt"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
	"sluice/internal/upstream/catalog"
)

const (
	// databasePatience is how long a database may take to answer. The operator waits for it.
	databasePatience = 5 * time.Second
	// pagesPatience is how long the pages of a SQLite database are looked at. A minute is enough for a gigabyte.
	pagesPatience = time.Minute
	// leastFree is how many bytes of disk space should be free. It is the size that the journal of
	// settlements may reach while the database is down; see docs/accounting.md.
	leastFree = 1 << 30
	// renewBefore is how long before its end a certificate should be renewed. Automatic renewal
	// happens earlier, so a certificate this close to its end says that it does not work.
	renewBefore = 14 * 24 * time.Hour
)

// Site describes what to examine. Functions in it are called at most once for each subject and may
// take a while.
type Site struct {
	// Running is the state of the server that examines itself, and Program the version of the program that asked it to.
	// If Running is nil, the server on the data folder is asked.
	Running *admin.Status
	Program string

	File     string   // the configuration file; empty if there is none
	Refused  string   // why the running server has not loaded the file as it is now; empty if it has
	Warnings []string // about the configuration, one sentence each
	// Changes returns what this program does differently with the configuration than an earlier version did, one sentence
	// each. An empty version is one that is not known.
	Changes func(before string) []string

	Data     string // the data folder
	Database Database
	Secret   string // the configured secret; empty if it is not set
	// Approximate says that servers on the database divide limits instead of counting together.
	Approximate bool
	// Redis looks at the Redis that nodes share; nil if there is none. An error must not hold a password.
	Redis func(ctx context.Context) (Redis, error)

	Listen      string   // the address of the server, as host:port
	Origin      string   // the URL that callers use, without a path
	Certificate string   // the certificate file; empty if TLS is off
	Doors       []string // what is open because the configuration does not decide it; see config.ImpliedDoors

	Providers []Provider
	// Models counts the models, or returns what is wrong with them.
	Models func() (Models, error)
}

// Database is where the site stores its data.
type Database struct {
	SQLite bool
	File   string // the name of the SQLite file inside the data folder
	// Inspect looks at the database without changing it. If the database does not answer, it
	// returns an error and an Inspection that has the Engine only.
	Inspect func(ctx context.Context) (Inspection, error)
	// Check reads the whole SQLite file, for as long as patience lasts. It returns what is damaged and what to do about it,
	// and reports whether it has read everything.
	Check func(ctx context.Context, patience time.Duration) (all bool, err error)
}

// Inspection is the state of a database.
type Inspection struct {
	Engine         string
	Version, Known int64 // the newest migration that was applied, and the newest that this program has
	Sealed         bool  // it holds a data key that is sealed under a secret
	Unserved       error // why no server may use it; nil if one may
	Calls          int64 // single calls that migrations have to rewrite
	// Takes is about how long the missing migrations take because of them; 0 if it does not matter.
	Takes time.Duration
	// Opens reports whether a secret opens the data key. It is never nil.
	Opens func(secret string) bool
}

// Redis is the state of the Redis in which nodes count limits.
type Redis struct {
	Name, Version string
	Evicts        bool // it forgets keys when its memory is full
}

// Models says how many models there are. Only a running server has discovered any.
type Models struct {
	Configured, Discovered, Sandbox int
	Router                          string // the id of the router
	// Ending are the configured models that have a day on which their vendor ends them, the first to end first.
	Ending []Ending
	// Unpriced are the models of vendors whose prices are not known at one of their places, by id.
	Unpriced []string
	// Aged are prices of the operator that have ended or end soon, and List the day on which the list of the program was
	// reviewed; empty: not known.
	Aged []price.Aged
	List string
}

// Ending is a model that its vendor ends.
type Ending struct {
	Model     string
	Day       time.Time
	Successor string // what the vendor advises instead; may be empty
}

// Finding is one result of an examination. Its JSON is the output of sluice doctor --json.
type Finding struct {
	Subject string `json:"subject"` // what was examined, such as database
	State   string `json:"state"`   // ok, warning or problem
	Message string `json:"message"` // what was found
	Advice  string `json:"advice,omitempty"`
}

// The states of a finding.
const (
	StateOK      = "ok"
	StateWarning = "warning" // the server runs, but something needs attention
	StateProblem = "problem" // something does not work
)

// Examine looks at everything and returns its findings, in the order in which a person would look:
// what others depend on comes first.
func Examine(ctx context.Context, s *Site) []Finding {
	d := &doctor{site: s}
	d.count()
	d.configuration()
	d.dataFolder()
	d.server(ctx) // sets running, which readiness, database, address and targets read
	d.readiness()
	d.database(ctx)
	d.redis(ctx)
	d.cluster()
	d.address()
	d.doors()
	d.certificate()
	d.providers(ctx)
	d.targets()
	d.models()
	d.endings()
	d.unpriced()
	d.prices(time.Now())
	return d.findings
}

// doctor is one examination. It is used by one goroutine.
type doctor struct {
	site     *Site
	running  *admin.Status // of the server on the data folder; nil if none runs or it does not answer
	held     bool          // a server runs on the data folder
	counted  Models
	uncount  error // why the models could not be counted
	findings []Finding
}

// ok adds a finding that needs no action.
func (d *doctor) ok(subject, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: StateOK, Message: fmt.Sprintf(format, args...)})
}

// add adds a warning or a problem. advice is what to do about it; it may be empty.
func (d *doctor) add(state, subject, advice, format string, args ...any) {
	d.findings = append(d.findings, Finding{Subject: subject, State: state, Message: fmt.Sprintf(format, args...), Advice: advice})
}

// configuration reports the warnings. Errors never get here: an invalid configuration cannot be
// loaded, so there would be no Site.
func (d *doctor) configuration() {
	switch {
	case d.site.Refused != "":
		d.add(StateProblem, "configuration", "Fix it there. Until then the server keeps its previous configuration.", "the server has refused the changed configuration: %s", d.site.Refused)
	case d.site.File == "":
		d.ok("configuration", "no file; the built-in defaults, the environment and flags apply")
	default:
		d.ok("configuration", "%s is valid", d.site.File)
	}
	for _, w := range d.site.Warnings {
		d.add(StateWarning, "configuration", "", "%s", w)
	}
}

// dataFolder checks that the folder exists, is private and has free space. It does not open the
// folder as a server does, because that would lock it.
func (d *doctor) dataFolder() {
	info, err := os.Stat(d.site.Data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.add(StateWarning, "data folder", "Run \"sluice serve\": the first start creates it.", "%s does not exist yet", d.site.Data)
	case err != nil:
		d.add(StateProblem, "data folder", "Give sluice the right to read and write it.", "%s cannot be read: %v", d.site.Data, err)
	case !info.IsDir():
		d.add(StateProblem, "data folder", "Name another folder in data, or remove the file.", "%s is not a folder", d.site.Data)
	default:
		if err := datadir.Check(d.site.Data); err != nil {
			d.add(StateProblem, "data folder", "Run: chmod -R go-rwx "+d.site.Data, "the server does not start: %v", err)
			return
		}
		// If the free space is not known, that is no finding.
		if free, ok := datadir.Free(d.site.Data); ok && free < leastFree {
			d.add(StateWarning, "data folder", "Free some disk space.", "only %d MB are free on the disk of %s", free>>20, d.site.Data)
		} else {
			d.ok("data folder", "%s", d.site.Data)
		}
	}
}

// server asks the server on the data folder, if there is one, how it is. That none runs is fine: the
// doctor is often called because the server does not start.
func (d *doctor) server(ctx context.Context) {
	st, program := d.site.Running, cmp.Or(d.site.Program, buildinfo.Version())
	if st == nil {
		client, err := admin.Dial(ctx, d.site.Data)
		if err != nil {
			d.ok("server", "none is running on this data folder")
			return
		}
		d.held = true
		status, err := admin.Ops().StatusShow.Call(ctx, client, admin.Empty{})
		if err != nil {
			// It may serve calls all the same, so this is no reason to restart it.
			d.add(StateWarning, "server", "Look at its log and at /readyz.", "it is running, but did not report its state: %v", err)
			return
		}
		st = &status
	}
	d.running, d.held = st, true
	d.ok("server", "running since %s as process %d on %s, with %d accounts and %d models",
		st.StartedAt.Local().Format("2006-01-02 15:04"), st.PID, st.Listen, st.Accounts, st.Models)
	// The program was replaced, and the server still runs the old one.
	if st.Version != program {
		d.add(StateWarning, "server", "Restart the server with this program.", "it is version %s and this program is %s", st.Version, program)
	}
}

// readiness reports what the running server says of itself, as /readyz does. What it says of the database and of other
// servers is left to those that look closer.
func (d *doctor) readiness() {
	if d.running == nil || len(d.running.Checks) == 0 {
		return
	}
	well := true
	for _, c := range d.running.Checks {
		switch {
		case c.Name == "database" || c.Name == "cluster":
			well = well && c.OK && c.Message == ""
			continue
		case !c.OK:
			d.add(StateProblem, "readiness", "The server's log says more.", "the server accepts no new calls: %s: %s", c.Name, c.Message)
		case c.Message != "":
			d.add(StateWarning, "readiness", "", "%s: %s", c.Name, c.Message)
		default:
			continue
		}
		well = false
	}
	if well {
		d.ok("readiness", "the server accepts calls, and what it knows of other servers is up to date")
	}
}

// database checks that the database answers and that its tables fit this program. What the running
// server says comes first: it may see a problem that a new connection does not have.
func (d *doctor) database(ctx context.Context) {
	if d.running != nil && d.running.DBError != "" {
		d.add(StateProblem, "database", "Start the database or fix the connection. Known keys keep working until then.", "the server cannot use %s: %s", d.running.Database, d.running.DBError)
		return
	}
	// Opening a SQLite database that does not exist would create it.
	if _, err := os.Stat(filepath.Join(d.site.Data, d.site.Database.File)); d.site.Database.SQLite && err != nil {
		d.ok("database", "SQLite; the first start creates it")
		return
	}
	if d.site.Database.SQLite && !d.pages(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, databasePatience)
	defer cancel()
	in, err := d.site.Database.Inspect(ctx)
	switch {
	case err != nil:
		d.add(StateProblem, "database", "Check that it runs and that the address, user and password in database are right.", "%s does not answer: %v", in.Engine, err)
	// A newer program has migrated the database. This one would not know its tables.
	case in.Version > in.Known:
		d.add(StateProblem, "database", "Use the newer sluice that set it up.", "%s is at version %d; this program knows versions up to %d", in.Engine, in.Version, in.Known)
	case in.Unserved != nil:
		d.add(StateProblem, "database", "See docs/run/postgresql.md.", "%v", in.Unserved)
	case in.Version < in.Known:
		d.add(StateWarning, "database", "The next start brings it up to date. Make a backup first.", "%s is at version %d of %d", in.Engine, in.Version, in.Known)
	default:
		d.ok("database", "%s answers and is up to date (version %d)", in.Engine, in.Version)
	}
	if err == nil {
		d.secret(in)
	}
}

// pages looks for damage in a SQLite database. It reports whether there is none.
func (d *doctor) pages(ctx context.Context) bool {
	switch all, err := d.site.Database.Check(ctx, pagesPatience); {
	case err != nil:
		d.add(StateProblem, "database", "See \"When the database is lost or damaged\" in docs/accounting.md.", "%v", err)
		return false
	case !all:
		d.add(StateWarning, "database", "Make a backup, and check that: sluice restore BACKUP --check.", "SQLite is so large that only a part was checked for damage")
	}
	return true
}

// cluster reports which servers share the database, as the running one sees it.
func (d *doctor) cluster() {
	if d.running == nil || len(d.running.Cluster.Nodes) == 0 {
		if d.site.Approximate {
			d.add(StateWarning, "cluster", divided, "limits are approximate: each server on the database admits its share of them")
		}
		return
	}
	c := d.running.Cluster
	alive, names := 0, []string{}
	for _, n := range c.Nodes {
		name := fmt.Sprintf("%s (version %s", cluster.NodeName(n.ID, n.Host), n.Version)
		switch {
		case n.Me:
			name += ", this one"
		case !n.Alive:
			name += ", silent since " + n.SeenAt.Local().Format("2006-01-02 15:04:05")
		}
		if names = append(names, name+")"); n.Alive {
			alive++
		}
	}
	list := fmt.Sprintf("servers on this database: %d running; %s", alive, strings.Join(names, ", "))
	switch {
	case c.Problem != "":
		d.add(StateProblem, "cluster", "See \"How limits are shared\" in docs/run/many-nodes.md.", "%s; %s", c.Problem, list)
	case d.site.Approximate && c.Note != "":
		d.add(StateWarning, "cluster", divided, "%s; %s", c.Note, list)
	case c.Note != "":
		d.add(StateWarning, "cluster", "", "%s; %s", c.Note, list)
	default:
		d.ok("cluster", "%s", list)
	}
}

// divided is what to do about limits that are divided.
const divided = "To share exact limits, set redis on all servers."

// leastRedis is the oldest major version of Redis and Valkey that the ledger is tested with.
const leastRedis = 7

// redis examines the Redis in which nodes count limits.
func (d *doctor) redis(ctx context.Context) {
	if d.site.Redis == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, databasePatience)
	defer cancel()
	in, err := d.site.Redis(ctx)
	if err != nil {
		d.add(StateProblem, "redis", "Check that it runs and that the address, user and password in redis are right. Until then each node admits its share of every limit.", "Redis does not answer: %v", err)
		return
	}
	major, _, _ := strings.Cut(in.Version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil || n < leastRedis:
		d.add(StateWarning, "redis", "Use Redis 7 or later, or Valkey.", "%s %s is older than what this program was tested with", in.Name, in.Version)
	case in.Evicts:
		d.add(StateWarning, "redis", "Set maxmemory-policy to noeviction.", "%s %s forgets keys when its memory is full, and with them what accounts have used", in.Name, in.Version)
	default:
		d.ok("redis", "%s %s answers", in.Name, in.Version)
	}
}

// secret checks that the configured secret or the key file opens what is sealed in the database:
// without it the server does not start. The first case that applies is reported.
func (d *doctor) secret(in Inspection) {
	secrets, err := datadir.ReadSecrets(d.site.Data, d.site.Secret)
	opens := slices.ContainsFunc(secrets.All(), in.Opens)
	const keep = "Keep a copy of it separate from the backups: they cannot be used without it."
	switch {
	case err != nil:
		d.add(StateProblem, "secret", "Run: chmod go-rwx "+filepath.Join(d.site.Data, datadir.SecretFile), "%v", err)
	case !in.Sealed:
		d.ok("secret", "nothing is sealed yet; the next start seals second-factor secrets and the like")
	case len(secrets.All()) == 0:
		d.add(StateProblem, "secret", upperFirst(datadir.SecretAdvice)+".", "the database is sealed, and there is no secret that opens it")
	case !opens:
		d.add(StateProblem, "secret", upperFirst(datadir.SecretAdvice)+".", "the database is sealed under another secret than %s", secrets.Source())
	// Both are there after the secret was replaced; see docs/accounting.md#the-data-folder-and-its-secret.
	case secrets.Configured != "" && secrets.File != "" && in.Opens(secrets.Configured):
		d.ok("secret", "SLUICE_SECRET opens what is sealed; %s beside it is not used and may be deleted", datadir.SecretFile)
	// PostgreSQL can have several nodes, and they share what is sealed.
	case secrets.Configured == "" && !d.site.Database.SQLite:
		d.add(StateWarning, "secret", "Set SLUICE_SECRET to what it holds on every node, or copy it into each data folder.", "%s opens what is sealed; other nodes on this database need the same", datadir.SecretFile)
	case secrets.Configured != "":
		d.ok("secret", "SLUICE_SECRET opens what is sealed. %s", keep)
	default:
		d.ok("secret", "%s opens what is sealed. %s", datadir.SecretFile, keep)
	}
}

// upperFirst returns s with a capital first letter. s must not be empty and begins with ASCII.
func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// address checks that the address is free, by listening on it for a moment. If the server runs, it
// has the address itself.
func (d *doctor) address() {
	// A server on another data folder may have the address, too. Then listening fails, as a start would.
	if !d.held {
		l, err := net.Listen("tcp", d.site.Listen)
		if err != nil {
			d.add(StateProblem, "address", "Stop what uses it, or choose another address in listen.", "%s cannot be used: %v", d.site.Listen, excerpt.Cause(err))
			return
		}
		l.Close()
		d.ok("address", "%s is free", d.site.Listen)
	}
	d.ok("address", "callers use %s/v1", d.site.Origin)
}

// doors reports who may sign up and how they may pay if the configuration does not decide it. Then
// the doors are open as long as only this machine sends requests; see httpserver.Local.
func (d *doctor) doors() {
	open := strings.Join(d.site.Doors, " and ")
	since := datadir.Proxied(d.site.Data) // what the first foreign request looked like
	switch {
	case open == "":
	case since == "":
		d.ok("doors", "%s: open, as on a developer's machine, until the first request comes through a proxy or for another host; set signup and billing.processor to decide it yourself", open)
	default:
		d.add(StateWarning, "doors", "Set public_url, signup and billing.processor. (Without a proxy: delete "+filepath.Join(d.site.Data, datadir.ProxiedFile)+" and restart.)",
			"%s: closed, because a request came through a proxy or for another host (%s)", open, since)
	}
}

// certificate checks when the certificate ends.
func (d *doctor) certificate() {
	if d.site.Certificate == "" {
		return
	}
	raw, err := os.ReadFile(d.site.Certificate)
	block, _ := pem.Decode(raw) // the first one is the server's own; those of its issuers follow
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
		d.add(StateProblem, "certificate", "Renew it. The server loads the new file by itself.", "it expired on %s", cert.NotAfter.Format(time.DateOnly))
	case left < renewBefore:
		d.add(StateWarning, "certificate", "Renew it. The server loads the new file by itself.", "it expires on %s", cert.NotAfter.Format(time.DateOnly))
	default:
		d.ok("certificate", "valid until %s", cert.NotAfter.Format(time.DateOnly))
	}
}

// CountModels counts the models of a catalog by where they come from.
func CountModels(c *catalog.Catalog) (m Models) {
	for _, model := range c.Models() {
		if model.Origin == catalog.Configured && !model.Shutdown.IsZero() {
			m.Ending = append(m.Ending, Ending{model.ID, model.Shutdown, model.Successor})
		}
		if unpriced(model, time.Now()) {
			m.Unpriced = append(m.Unpriced, model.ID)
		}
		switch {
		case model.Router:
			m.Router = model.ID
		case model.Sandbox:
			m.Sandbox++
		case model.Origin == catalog.Configured:
			m.Configured++
		default: // nobody has configured it, so a server has found it
			m.Discovered++
		}
	}
	slices.Sort(m.Unpriced)
	slices.SortStableFunc(m.Ending, func(a, b Ending) int { return a.Day.Compare(b.Day) })
	return m
}

// unpriced reports whether calls of a model can have no cost, because a vendor that serves it has no price for it.
func unpriced(m *catalog.Model, now time.Time) bool {
	if m.Router || m.Sandbox {
		return false
	}
	for _, place := range m.Places() {
		if place.Price.At(now.Unix()) == nil {
			return true
		}
	}
	return false
}

// count counts the models.
func (d *doctor) count() { d.counted, d.uncount = d.site.Models() }

// models checks that there are models that can serve a request.
func (d *doctor) models() {
	m := d.counted
	switch {
	case d.uncount != nil:
		d.add(StateProblem, "models", "Fix the models in the configuration.", "%v", d.uncount)
	case m.Discovered > 0:
		d.ok("models", "%d configured, %d discovered, %d built-in sandbox, and the router %s", m.Configured, m.Discovered, m.Sandbox, m.Router)
	case m.Configured+m.Sandbox == 0:
		d.add(StateWarning, "models", "Add models to the configuration, or set sandbox: true.", "none is configured, and the sandbox is off")
	default:
		d.ok("models", "%d configured, %d built-in sandbox, and the router %s", m.Configured, m.Sandbox, m.Router)
	}
}

// prices warns of prices that have ended or end soon, and of an old list.
func (d *doctor) prices(now time.Time) {
	for _, a := range d.counted.Aged {
		d.add(StateWarning, "prices", "Write the new prices under prices in the configuration, or import a list that has them.", "%s: %s", a.Entry.Model, a.Text(now))
	}
	if text := price.Outdated(d.counted.List, now); text != "" {
		d.add(StateWarning, "prices", "Install the latest version, or run sluice prices import with a newer list.", "%s", text)
	}
}

// warnBefore is how long before the end of a model the doctor warns of it.
const warnBefore = 60 * 24 * time.Hour

// endings warns of models that end soon, or have ended.
func (d *doctor) endings() {
	now := time.Now()
	for _, e := range d.counted.Ending {
		if e.Day.Sub(now) > warnBefore {
			return // so do the others
		}
		advice := "Configure another model in its place, or give it fallbacks."
		if e.Successor != "" {
			advice = "The vendor recommends " + e.Successor + ". Configure it in its place, or as a fallback."
		}
		if e.Day.After(now) {
			d.add(StateWarning, "models", advice, "the vendor retires %s on %s", e.Model, e.Day.Format(time.DateOnly))
		} else {
			d.add(StateProblem, "models", advice, "the vendor retired %s on %s", e.Model, e.Day.Format(time.DateOnly))
		}
	}
}

// shownUnpriced is how many models without a price are named.
const shownUnpriced = 5

// unpriced warns of models without a price: what their calls cost is not known, which does not make them free.
func (d *doctor) unpriced() {
	all := d.counted.Unpriced
	if len(all) == 0 {
		return
	}
	named := strings.Join(all[:min(len(all), shownUnpriced)], ", ")
	if more := len(all) - shownUnpriced; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	d.add(StateWarning, "prices", "Set their prices in the configuration, under prices. Until then their calls count as unpriced.", "models without a price: %s", named)
}
