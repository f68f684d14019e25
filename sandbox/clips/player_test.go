//go:build unix

package clips

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// usualSizes are those that callers ask for most.
var usualSizes = [][2]int{{480, 480}, {854, 480}, {720, 720}, {1280, 720}, {720, 1280}, {1920, 1080}}

// playedClip is a clip for players.
type playedClip struct {
	Spec
	file []byte
}

// played renders the clips that players are given: two sizes, all of the usual ones in a soak.
var played = sync.OnceValues(func() (map[string]playedClip, error) {
	sizes := [][2]int{{480, 480}, {720, 1280}}
	seconds := 1
	if os.Getenv("SLUICE_SOAK") != "" {
		sizes, seconds = usualSizes, 3
	}
	clips := map[string]playedClip{}
	for _, size := range sizes {
		s := Spec{"a lighthouse at dusk", size[0], size[1], seconds}
		var out bytes.Buffer
		if err := Render(context.Background(), &out, s, nil); err != nil {
			return nil, err
		}
		clips[fmt.Sprintf("%dx%d", size[0], size[1])] = playedClip{s, out.Bytes()}
	}
	return clips, nil
})

// TestFfprobe checks what ffmpeg's tools see in a clip: the codec, its size, length and frames, and no
// complaint about any of them.
func TestFfprobe(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"ffprobe", "ffmpeg"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs ffmpeg: %v", err)
		}
	}
	clips, err := played()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range clips {
		file := filepath.Join(t.TempDir(), name+".mp4")
		if err := os.WriteFile(file, s.file, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "ffprobe", "-v", "error", "-count_frames", "-of", "json",
			"-show_entries", "stream=codec_name,profile,width,height,avg_frame_rate,nb_read_frames,duration,pix_fmt,color_space,has_b_frames:format_tags=title,comment", file).CombinedOutput()
		if err != nil {
			t.Fatalf("ffprobe: %v: %s", err, out)
		}
		var got struct {
			Streams []map[string]any
			Format  struct{ Tags map[string]string }
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("ffprobe: %v: %s", err, out)
		}
		want := map[string]string{
			"codec_name": "h264", "profile": "Constrained Baseline", "width": strconv.Itoa(s.Width), "height": strconv.Itoa(s.Height),
			"avg_frame_rate": "24/1", "nb_read_frames": strconv.Itoa(24 * s.Seconds), "duration": fmt.Sprintf("%d.000000", s.Seconds),
			"pix_fmt": "yuv420p", "color_space": "bt709", "has_b_frames": "0",
		}
		if len(got.Streams) != 1 {
			t.Fatalf("%s has %d streams, want 1", name, len(got.Streams))
		}
		for key, value := range want {
			if g := fmt.Sprint(got.Streams[0][key]); g != value {
				t.Errorf("%s: %s = %s, want %s", name, key, g, value)
			}
		}
		if g := got.Format.Tags["comment"]; g != "sandbox render, not a generative model" {
			t.Errorf("%s: comment = %q", name, g)
		}
		if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-v", "warning", "-xerror", "-i", file, "-f", "null", "-").CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: ffmpeg: %v: %s", name, err, out)
		}
	}
}

// playback is what a browser says about a clip that it has played to its end.
type playback struct {
	Clip          string
	Error         string
	Duration      float64
	Width, Height int
	Ended         bool
	At            float64
	Frames        int
	Mean, Spread  float64 // brightness of the last picture, drawn on a canvas
}

// page plays each clip in turn and reports it.
const page = `<!doctype html><meta charset="utf-8"><body><script>
const play = (clip) => new Promise((done) => {
  const v = document.createElement("video"), r = {clip};
  const end = () => {
    r.duration = v.duration; r.width = v.videoWidth; r.height = v.videoHeight; r.ended = v.ended; r.at = v.currentTime;
    r.frames = v.getVideoPlaybackQuality().totalVideoFrames;
    const c = document.createElement("canvas"); c.width = v.videoWidth; c.height = v.videoHeight;
    const g = c.getContext("2d"); g.drawImage(v, 0, 0);
    const p = g.getImageData(0, 0, c.width, c.height).data;
    let n = 0, sum = 0, squares = 0;
    for (let i = 0; i < p.length; i += 4) { const l = (p[i] + p[i+1] + p[i+2]) / 3; n++; sum += l; squares += l * l; }
    r.mean = sum / n; r.spread = Math.sqrt(squares / n - r.mean * r.mean);
    v.remove(); done(r);
  };
  v.muted = true; v.onended = end;
  v.onerror = () => { r.error = v.error.message || "error " + v.error.code; done(r); };
  v.src = "/clips/" + clip; document.body.append(v); v.play().catch((e) => { r.error = String(e); done(r); });
});
(async () => {
  for (const clip of await (await fetch("/clips/")).json())
    await fetch("/report", {method: "POST", body: JSON.stringify(await play(clip))});
})();
</script>`

// TestChromiumPlays has a browser play clips to the end.
func TestChromiumPlays(t *testing.T) {
	t.Parallel()
	browser := findBrowser(t)
	clips, err := played()
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(clips))
	reports := make(chan playback, len(clips))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) })
	mux.HandleFunc("GET /clips/{$}", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(names) })
	mux.HandleFunc("GET /clips/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(clips[r.PathValue("name")].file))
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var p playback
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			p.Error = err.Error()
		}
		reports <- p
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	said := startBrowser(t, ctx, browser, server.URL)
	for range clips {
		select {
		case p := <-reports:
			checkPlayback(t, p, clips[p.Clip].Spec)
		case <-ctx.Done():
			t.Fatalf("the browser reported nothing for too long; it said:\n%s", said())
		}
	}
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs Chromium: there is none in PATH")
	return ""
}

// startBrowser opens a page in a browser without a window, until the test ends. What the browser said
// can be asked for once the context has ended.
func startBrowser(t *testing.T, ctx context.Context, browser, url string) (said func() string) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--mute-audio",
		"--autoplay-policy=no-user-gesture-required", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), url)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// A browser has many children: they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return func() string {
		<-ended
		return strings.TrimSpace(out.String())
	}
}

func checkPlayback(t *testing.T, p playback, s Spec) {
	t.Helper()
	if p.Error != "" {
		t.Errorf("%s: %s", p.Clip, p.Error)
		return
	}
	if !p.Ended || math.Abs(p.Duration-float64(s.Seconds)) > 0.01 || math.Abs(p.At-p.Duration) > 0.05 {
		t.Errorf("%s: ended = %v at %v of %v s, want true at the end of %d", p.Clip, p.Ended, p.At, p.Duration, s.Seconds)
	}
	if p.Width != s.Width || p.Height != s.Height {
		t.Errorf("%s: size = %dx%d", p.Clip, p.Width, p.Height)
	}
	if p.Frames < 1 {
		t.Errorf("%s: frames = %d, want some", p.Clip, p.Frames)
	}
	if p.Mean < 20 || p.Mean > 230 || p.Spread < 15 {
		t.Errorf("%s: last picture has brightness %.0f with a spread of %.0f, want a picture", p.Clip, p.Mean, p.Spread)
	}
}
