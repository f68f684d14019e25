package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A segment in which something is unreadable or missing is mended: the file is kept in the folder
// damagedFolder as it was found, beside a report, and a new file takes its place that has every frame
// which can be read. The reports are files, so that they outlive the process and need no database. They
// count until somebody acknowledges them.
const (
	damagedFolder = "damaged"
	reportSuffix  = ".json"
	mostRanges    = 50 // of missing numbers that a report lists
)

// Damage is something in the journal that is unreadable or missing, and what that can have cost.
type Damage struct {
	ID    string    `json:"id"`
	Found time.Time `json:"found"`
	File  string    `json:"file,omitempty"` // the segment; empty if no file is concerned
	Kept  string    `json:"kept,omitempty"` // where the file is kept as it was found
	What  string    `json:"what"`
	Bytes int64     `json:"unreadable_bytes"`
	// Recovered counts the settlements of the file that could be read. They are not lost.
	Recovered int64 `json:"recovered"`
	// Lost is how many settlements are lost, or how many at most.
	Lost   int64 `json:"lost"`
	AtMost bool  `json:"at_most"`
	// Stored counts those of the missing ones that the database had already. They are not lost.
	Stored  int64   `json:"already_stored"`
	Numbers []Range `json:"missing_numbers,omitempty"` // at most mostRanges
	// From and Until are when the calls before and after the damage ended; zero if that is not known.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`

	Acknowledged time.Time `json:"acknowledged,omitzero"`
	By           string    `json:"acknowledged_by,omitempty"`
}

// Range is a range of numbers, both included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// Loss says in words what the damage can have cost.
func (d *Damage) Loss() string {
	switch {
	case d.Lost == 0:
		return "no settlement is lost"
	case d.AtMost:
		return fmt.Sprintf("at most %d settlements are lost", d.Lost)
	}
	return fmt.Sprintf("%d settlements are lost", d.Lost)
}

// mendNow mends a segment that turned out to be damaged while the journal is in use. The caller holds
// files.
func (j *Journal) mendNow(bad *damagedError) error {
	j.mu.Lock()
	i := slices.IndexFunc(j.segments, func(s *segment) bool { return s.path == bad.path })
	if i < 0 {
		j.mu.Unlock()
		return bad // the journal was closed
	}
	s := j.segments[i]
	if s.failed { // its end is in memory: nothing is lost yet
		j.mu.Unlock()
		return j.rewrite(s)
	}
	// Nothing may be appended to it meanwhile.
	if i == len(j.segments)-1 && !s.sealed {
		if j.spare == nil {
			j.mu.Unlock()
			return fmt.Errorf("%w; it is mended when the next segment is there", bad)
		}
		j.turn()
	}
	s.sealed = true
	var after link
	if i > 0 {
		after = j.segments[i-1].last
	}
	floor := j.committed // what is not in any segment is in the database
	j.mu.Unlock()
	data, err := s.content(nil)
	if err != nil {
		return err
	}
	if found := scan(data, s.old, after, floor, nil); len(found.gaps) == 0 {
		return bad // the disk reads one thing now and another then; try again later
	}
	_, err = j.mend(s, data, after, floor, 0)
	return err
}

// mend replaces a segment by one with every frame that can be read, keeps the old one aside, and reports
// what is missing. It returns the last frame. Either the old or the new file has the segment's name at
// any time, so a crash loses nothing. Only OpenJournal, and readers that hold files, call it.
//
// after and floor are those of scan. written is a number that the last segment must have reached, or 0.
func (j *Journal) mend(s *segment, data []byte, after link, floor, written uint64) (link, error) {
	d := Damage{File: filepath.Base(s.path), What: "a part of the file is unreadable or missing"}
	m := mending{segment: s, data: data, last: after}
	found := scan(data, s.old, after, floor, m.copy)
	d.Recovered = found.records
	for i := range found.gaps {
		g := &found.gaps[i]
		if g.before == 0 && !s.old { // the end of the file
			if s.last.known && s.last.seq >= g.after.seq {
				g.before = s.last.seq + 1
				m.whole = append(m.whole, resumeFrame(m.last, s.last)...)
				found.last = s.last
			}
			s.torn = g.before == 0
		}
		d.add(g, s.old, j.committed, written)
	}
	if err := j.keep(s, &d); err != nil {
		return link{}, err
	}
	err := j.replace(s, m.whole, func() {
		s.end, s.read, s.waiting, s.sealed = int64(len(m.whole)), m.read, m.waiting, true
		if m.waiting == 0 {
			s.read = s.end
		}
	})
	if err != nil {
		return link{}, fmt.Errorf("mend the journal: %w", err)
	}
	j.report(d)
	return found.last, nil
}

// mending collects what can be read of a segment.
type mending struct {
	*segment
	data    []byte
	whole   []byte // the new file
	last    link   // of it
	read    int64  // after the last record in it that is in the database
	waiting int64  // records in it that are not
}

// copy adds a frame as it is. Where something is missing before it, a frame that says so comes first.
func (m *mending) copy(f *frame, at int64, broken bool) {
	if broken && !m.old {
		m.whole = append(m.whole, resumeFrame(m.last, f.follows())...)
	}
	m.whole = append(m.whole, m.data[at:at+f.size]...)
	m.last = link{seq: f.seq, sum: f.sum, known: true}
	switch {
	case f.kind == kindResume:
		m.last = f.resumed()
	case at < m.segment.read:
		m.read = int64(len(m.whole))
	default:
		m.waiting++
	}
}

// add adds a gap. committed and written are the numbers of the last settlement that the database has, and
// of the last one that is known to have been written.
func (d *Damage) add(g *gap, old bool, committed, written uint64) {
	d.Bytes += g.until - g.at
	if d.From.IsZero() || !g.from.IsZero() && g.from.Before(d.From) {
		d.From = g.from
	}
	if g.to.After(d.Until) {
		d.Until = g.to
	}
	first := g.after.seq + 1
	stored := uint64(0) // how many of the missing ones the database has at most
	if committed >= first {
		stored = committed - g.after.seq
	}
	switch {
	case old:
		d.guess(g, minOldFrame, 0, 0)
	case g.before == 0: // the end
		d.guess(g, minFrame, written-min(written, g.after.seq), stored)
	case !g.after.known: // the beginning of all that is known
		d.guess(g, minFrame, 0, 0)
	case g.before > first:
		missing := g.before - first
		stored = min(stored, missing)
		d.Stored += int64(stored)
		d.Lost += int64(missing - stored)
		if len(d.Numbers) < mostRanges {
			d.Numbers = append(d.Numbers, Range{first, g.before - 1})
		}
	case g.at == g.until:
		// Every number is there, but a record is not the one that the next one was chained to.
		d.Lost, d.AtMost = d.Lost+1, true
	}
}

// guess counts what a gap can have held at most, where no numbers tell: as many of the smallest frames as fit, or
// as many as are known to have been there.
func (d *Damage) guess(g *gap, smallest int64, known, stored uint64) {
	most := max(uint64((g.until-g.at+smallest-1)/smallest), known)
	stored = min(stored, most)
	d.Stored += int64(stored)
	d.Lost, d.AtMost = d.Lost+int64(most-stored), true
}

// keep puts a copy of a damaged segment aside, with a name of its own. A link is the file itself, also
// where it cannot be read; it stays what it is when the segment is replaced.
func (j *Journal) keep(s *segment, d *Damage) error {
	folder := filepath.Join(j.dir, damagedFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keep a damaged segment of the journal: %w", err)
	}
	for n := 1; ; n++ {
		d.Kept = filepath.Join(folder, fmt.Sprintf("%d-%s", n, filepath.Base(s.path)))
		err := os.Link(s.path, d.Kept)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil { // not every file system has links
			err = copyAside(s.path, d.Kept)
		}
		if err != nil {
			return fmt.Errorf("keep a damaged segment of the journal: %w", err)
		}
		syncFolder(folder)
		return nil
	}
}

// copyAside copies a file to a new one.
func copyAside(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// report stores a damage and logs it. A report that cannot be stored still counts in this process.
func (j *Journal) report(d Damage) {
	d.Found = time.Now().UTC().Truncate(time.Millisecond)
	name, _, _ := strings.Cut(cmp.Or(d.File, "end"), ".")
	d.ID = d.Found.Format("20060102T150405.000-") + name
	err := os.MkdirAll(filepath.Join(j.dir, damagedFolder), 0o700)
	if err == nil {
		err = writeDamage(j.dir, &d)
	}
	if err != nil {
		d.What += fmt.Sprintf("; the report could not be stored: %v", err)
	}
	j.mu.Lock()
	j.damage = append(j.damage, d)
	j.mu.Unlock()
	if j.opts.Damaged != nil {
		j.opts.Damaged(d)
	}
}

func writeDamage(dir string, d *Damage) error {
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, damagedFolder, d.ID+reportSuffix), append(raw, '\n'), (*os.File).Sync)
}

// readDamage returns the reports that nobody has acknowledged, oldest first. A report that cannot be
// read counts as one: something was lost.
func readDamage(dir string) (out []Damage, err error) {
	files, err := os.ReadDir(filepath.Join(dir, damagedFolder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the reports of damage in the journal: %w", err)
	}
	for _, f := range files { // by name, which begins with the time
		id, ok := strings.CutSuffix(f.Name(), reportSuffix)
		if !ok {
			continue
		}
		var d Damage
		raw, err := os.ReadFile(filepath.Join(dir, damagedFolder, f.Name()))
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		if err != nil {
			d = Damage{What: fmt.Sprintf("the report %s cannot be read: %v", f.Name(), err)}
		}
		if d.ID = id; d.Acknowledged.IsZero() {
			out = append(out, d)
		}
	}
	return out, nil
}

// Damage returns what is damaged and not acknowledged, oldest first.
func (j *Journal) Damage() []Damage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.damage)
}

// Acknowledge notes that somebody has read the reports of damage, and returns them. The files stay.
func (j *Journal) Acknowledge(by string) ([]Damage, error) {
	list := j.Damage()
	var errs []error
	for i := range list {
		list[i].Acknowledged, list[i].By = time.Now().UTC().Truncate(time.Millisecond), by
		errs = append(errs, writeDamage(j.dir, &list[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("acknowledge the damage of the journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.damage = slices.DeleteFunc(j.damage, func(d Damage) bool {
		return slices.ContainsFunc(list, func(seen Damage) bool { return seen.ID == d.ID })
	})
	return list, nil
}
