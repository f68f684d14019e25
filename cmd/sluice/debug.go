package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// debugPatience is how long each part of a bundle may take. A server that hangs does not answer all
// of them, and the others are then all the more useful.
const debugPatience = 15 * time.Second

// debugCmd collects what somebody needs who looks for the cause of a problem. It asks the running
// server, and does what it can without one.
func (p *program) debugCmd() *cobra.Command {
	var output string
	var seconds int
	cmd := &cobra.Command{
		Use: "debug", Short: "Collect profiles, settings and recent errors into a file", Args: args(),
		Long: `Collect what is needed to find the cause of a problem into one file: profiles and
goroutines of the running server, its settings without secrets, versions, the
last warnings and errors, metrics, and the findings of "sluice doctor". The file
FILES in it lists the rest. Look at it before you pass it on: it holds no keys
and no texts of conversations, but addresses and the names of models.

The same profiles are on the socket admin.sock in the data folder:

  curl --unix-socket data/admin.sock http://sluice/debug/pprof/heap > heap.pb.gz`,
		RunE: func(c *cobra.Command, _ []string) error {
			if seconds < 1 || seconds > 120 {
				return misused(c, errors.New("--seconds must be from 1 to 120"))
			}
			if output == "" {
				output = "sluice-debug-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			return p.debug(c.Context(), output, seconds)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write (default sluice-debug-TIME.tar.gz)")
	cmd.Flags().IntVar(&seconds, "seconds", 10, "how long to record CPU usage")
	return cmd
}

// part is one file of a bundle.
type part struct {
	name, about string
	patience    time.Duration
	read        func(ctx context.Context) ([]byte, error)
}

// debug writes the bundle. A part that cannot be had is named in FILES, with the reason.
func (p *program) debug(ctx context.Context, output string, seconds int) error {
	parts := p.offlineParts()
	dialing, cancel := context.WithTimeout(ctx, debugPatience)
	defer cancel()
	client, _, err := p.dial(dialing)
	if err != nil {
		return err
	}
	if client != nil {
		parts = append(serverParts(client, seconds), parts...)
	} else {
		fmt.Fprintln(p.stderr, "No server runs on this data folder, so the file will have no profiles.")
	}
	f, err := os.OpenFile(output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	list, err := p.bundle(ctx, f, parts)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(output))
	}
	return p.print(map[string]any{"file": output, "files": list}, func(w io.Writer) { fmt.Fprintf(w, "Wrote %s.\n", output) })
}

// bundle reads the parts and writes them to w, the list of them last. It returns their names.
func (p *program) bundle(ctx context.Context, w io.Writer, parts []part) (names []string, err error) {
	zipped := gzip.NewWriter(w)
	files := tar.NewWriter(zipped)
	add := func(name string, body []byte) {
		head := &tar.Header{Name: "sluice-debug/" + name, Mode: 0o600, Size: int64(len(body)), ModTime: time.Now(), Format: tar.FormatPAX}
		err = errors.Join(err, files.WriteHeader(head))
		_, writeErr := files.Write(body)
		err = errors.Join(err, writeErr)
	}
	var list strings.Builder
	for _, part := range parts {
		fmt.Fprintf(p.stderr, "%s: %s … ", part.name, part.about)
		reading, cancel := context.WithTimeout(ctx, part.patience)
		body, readErr := part.read(reading)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err() // interrupted
		}
		if readErr != nil {
			fmt.Fprintln(p.stderr, readErr)
			fmt.Fprintf(&list, "%s: %s: missing: %v\n", part.name, part.about, readErr)
			continue
		}
		fmt.Fprintf(p.stderr, "%d bytes\n", len(body))
		fmt.Fprintf(&list, "%s: %s, %d bytes\n", part.name, part.about, len(body))
		add(part.name, body)
		names = append(names, part.name)
	}
	add("FILES", []byte(list.String()))
	return append(names, "FILES"), errors.Join(err, files.Close(), zipped.Close())
}

// serverParts returns what a running server knows. The goroutines come first: they are what matters
// most if it hangs, and asking for them needs nothing of it.
func serverParts(client *admin.Client, seconds int) []part {
	fetch := func(name, about, from string) part {
		return part{name, about, debugPatience, func(ctx context.Context) ([]byte, error) { return client.Fetch(ctx, from) }}
	}
	call := func(name, about string, read func(ctx context.Context) (string, error)) part {
		return part{name, about, debugPatience, func(ctx context.Context) ([]byte, error) {
			text, err := read(ctx)
			return []byte(text), err
		}}
	}
	ask := func(ctx context.Context) (admin.Debug, error) {
		return admin.Ops().DebugShow.Call(ctx, client, admin.Empty{})
	}
	profile := fetch("cpu.pb.gz", fmt.Sprintf("CPU profile, recorded for %d seconds", seconds), fmt.Sprintf("pprof/profile?seconds=%d", seconds))
	profile.patience += time.Duration(seconds) * time.Second
	return []part{
		fetch("goroutines.txt", "what every goroutine is doing", "pprof/goroutine?debug=2"),
		fetch("goroutine.pb.gz", "goroutines as a profile", "pprof/goroutine"),
		fetch("heap.pb.gz", "memory in use", "pprof/heap"),
		fetch("allocs.pb.gz", "memory allocated since the start", "pprof/allocs"),
		fetch("threadcreate.pb.gz", "threads", "pprof/threadcreate"),
		fetch("metrics.txt", "metrics", "metrics"),
		call("server.json", "versions of the server and its libraries", func(ctx context.Context) (string, error) {
			d, err := ask(ctx)
			d.Config, d.Problems = "", nil // in files of their own
			return jsonText(d), err
		}),
		call("config.yaml", "settings in force, without secrets", func(ctx context.Context) (string, error) {
			d, err := ask(ctx)
			return d.Config, err
		}),
		call("problems.log", "the last warnings and errors", func(ctx context.Context) (string, error) {
			d, err := ask(ctx)
			return strings.Join(append(d.Problems, ""), "\n"), err
		}),
		call("status.json", "state of the server, its providers and its cluster", func(ctx context.Context) (string, error) {
			s, err := admin.Ops().StatusShow.Call(ctx, client, admin.Empty{})
			return jsonText(s), err
		}),
		profile,
	}
}

// offlineParts returns what can be found out without a server, and the findings.
func (p *program) offlineParts() []part {
	return []part{
		{"config-on-disk.yaml", "settings as this command reads them, without secrets", debugPatience, func(context.Context) ([]byte, error) {
			cfg, err := p.load()
			if err != nil {
				return nil, err
			}
			return []byte(cfg.Redacted()), nil
		}},
		{"version.json", "version of this command", debugPatience, func(context.Context) ([]byte, error) { return []byte(jsonText(admin.Build())), nil }},
		{"doctor.txt", "findings of \"sluice doctor\"", 2 * debugPatience, func(ctx context.Context) ([]byte, error) {
			var text bytes.Buffer
			printFindings(&text, p.findings(ctx))
			return text.Bytes(), nil
		}},
	}
}

// jsonText returns v as JSON for people.
func jsonText(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error() // the types of package admin always encode
	}
	return string(text) + "\n"
}
