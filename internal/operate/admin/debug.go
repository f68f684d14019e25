package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
)

const (
	// debugPath is where profiles and metrics are served on the socket, with the names that package
	// net/http/pprof gives them, so that its tools work. That package is not used: it registers itself
	// with every server of the process.
	debugPath   = "/debug/"
	profilePath = debugPath + "pprof/"
	// maxSeconds bounds how long a profile may take.
	maxSeconds = 120
	// maxProfile bounds a profile or the metrics, in bytes.
	maxProfile = 64 << 20
)

// Debug is what "sluice debug" asks a server for. It holds no secrets.
type Debug struct {
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`
	Go        string    `json:"go"`
	System    string    `json:"system"`
	Modules   []string  `json:"modules"` // the libraries, each with its version
	StartedAt time.Time `json:"started_at"`
	// Config is all settings in force as YAML, without secrets.
	Config string `json:"config"`
	// ConfigRefused says why the configuration on disk is not in force. It is empty if it is.
	ConfigRefused string `json:"config_refused,omitempty"`
	// Problems are the last warnings and errors of the log, the oldest first.
	Problems []string `json:"problems"`
	// DroppedLines counts lines of the log that nobody could read.
	DroppedLines int64 `json:"dropped_lines"`
}

// Build describes the program itself: its version, and what it was built with.
func Build() Debug {
	d := Debug{Version: buildinfo.Version(), Commit: buildinfo.Commit(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			d.Modules = append(d.Modules, m.Path+" "+m.Version)
		}
	}
	return d
}

func (b *Backend) debug(context.Context, Empty) (Debug, error) {
	if b.Debug == nil {
		return Debug{}, fault.New(fault.Conflict, "No server runs on this data folder.")
	}
	return b.Debug(), nil
}

// Asking is the argument of examine.
type Asking struct {
	Version string `json:"version"` // of the program that asks
}

// examine lets the server examine itself: it alone has its whole configuration, with the variables that it was started
// with, and knows its address and the models that it has discovered.
func (b *Backend) examine(ctx context.Context, in Asking) (json.RawMessage, error) {
	if b.Examine == nil {
		return nil, fault.New(fault.Conflict, "No server runs on this data folder.")
	}
	return json.Marshal(b.Examine(ctx, in.Version))
}

// serveDebug serves profiles and metrics. It reports false for other paths.
func (b *Backend) serveDebug(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, debugPath) {
		return false
	}
	if r.URL.Path == debugPath+"metrics" && b.Metrics != nil {
		b.Metrics.ServeHTTP(w, r)
		return true
	}
	name, ok := strings.CutPrefix(r.URL.Path, profilePath)
	if !ok {
		return false
	}
	seconds, _ := strconv.Atoi(r.FormValue("seconds")) // 0 if it is not given
	detail, _ := strconv.Atoi(r.FormValue("debug"))
	if name == "profile" {
		profileCPU(w, r, min(max(seconds, 1), maxSeconds))
		return true
	}
	p := pprof.Lookup(name)
	if p == nil {
		return false
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if detail > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = p.WriteTo(w, detail) // an error means that the client disconnected
	return true
}

// profileCPU records where the process spends its time, until the time is over or the client leaves.
func profileCPU(w http.ResponseWriter, r *http.Request, seconds int) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // somebody else is recording one
		return
	}
	defer pprof.StopCPUProfile()
	_ = pace.Sleep(r.Context(), time.Duration(seconds)*time.Second)
}

// Fetch returns what a server has below /debug/, such as "pprof/heap" or "metrics".
func (c *Client) Fetch(ctx context.Context, name string) ([]byte, error) {
	if c.socket == nil {
		return nil, fmt.Errorf("%s works only on the machine of the server, without --server", name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sluice"+debugPath+name, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.socket.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("the server did not answer: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProfile))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answered with status %d", resp.StatusCode)
	}
	return body, err
}
