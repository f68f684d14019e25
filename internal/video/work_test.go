package video_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/video"
)

// claimAs claims the next job for a node that then dies.
func (w *world) claimAs(node string, lease time.Duration) *video.Job {
	w.t.Helper()
	j, err := w.store.ClaimVideo(w.t.Context(), time.Now(), func(j *video.Job) {
		j.Status, j.Node, j.Until, j.StartedAt = video.Running, node, time.Now().Add(lease), time.Now()
		j.Renderer, j.Credential = "test", "c1"
		j.Attempts++
	})
	if err != nil || j == nil {
		w.t.Fatalf("ClaimVideo = %v, %v, want a job", j, err)
	}
	return j
}

// abandon leaves a file where a killed attempt would.
func (w *world) abandon(name string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "files", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// A job whose worker died on another node is claimed again when its claim has lapsed, and not
// before.
func TestTakenOver(t *testing.T) {
	inWorld(t, film, func(w *world) {
		j := w.create("a lighthouse")
		w.claimAs("dead", 30*time.Second)
		w.abandon("tmp/videos_" + j.ID + "-1.mp4.part") // killed while it wrote
		w.abandon("videos/" + j.ID + "-1.mp4")          // or before it was stored
		defer w.run(w.line)()
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if now := w.find(j.ID); now.Status != video.Running || now.Attempts != 1 {
			w.t.Errorf("before the claim has lapsed the job is %+v, want it left alone", now)
		}
		now := w.await(j.ID, video.Succeeded)
		if took := time.Since(j.CreatedAt); now.Attempts != 2 || took > 33*time.Second {
			w.t.Errorf("the job took %d attempts and %v, want 2 and the lease", now.Attempts, took)
		}
		if len(w.kept()) != 1 || len(w.settlements()) != 1 {
			w.t.Errorf("files %q and %d settlements, want one of each", w.kept(), len(w.settled))
		}
	})
}

// A node that restarts takes back its own jobs at once.
func TestStartedAgain(t *testing.T) {
	inWorld(t, film, func(w *world) {
		j := w.create("a lighthouse")
		w.claimAs("node1", time.Hour)
		defer w.run(w.line)()
		w.await(j.ID, video.Succeeded)
		if took := time.Since(j.CreatedAt); took > 2*time.Second {
			w.t.Errorf("the job took %v, want no wait for the lease", took)
		}
	})
}

func TestInterrupted(t *testing.T) {
	inWorld(t, film, func(w *world) {
		j := w.create("a job that kills its workers")
		for range 5 {
			w.claimAs("dead", time.Second)
			time.Sleep(time.Second)
		}
		w.abandon("tmp/videos_" + j.ID + "-5.mp4.part")
		defer w.run(w.line)()
		now := w.await(j.ID, video.Failed)
		if now.Reason != video.Interrupted || w.used() != 1500 || len(w.kept()) != 0 {
			w.t.Errorf("the job is %+v, %d used, files %q, want it interrupted", now, w.used(), w.kept())
		}
	})
}

// Work that is stopped continues elsewhere, and the attempt does not count.
func TestStopped(t *testing.T) {
	inWorld(t, endless, func(w *world) {
		stop := w.run(w.line)
		j := w.create("a lighthouse")
		w.await(j.ID, video.Running)
		stop()
		if now := w.find(j.ID); now.Status != video.Queued || now.Attempts != 0 || len(w.kept()) != 0 {
			w.t.Errorf("behind a stop the job is %+v with files %q, want it in the queue", now, w.kept())
		}
		w.settings.Engine.Renderer = renderer(film)
		w.settings.Engines = []video.Engine{w.settings.Engine}
		defer w.run(w.open("node2"))()
		if now := w.await(j.ID, video.Succeeded); now.Attempts != 1 {
			w.t.Errorf("the job took %d attempts, want 1", now.Attempts)
		}
	})
}

// A worker that slept past its claim must not finish a job that another has claimed.
func TestLost(t *testing.T) {
	sleepy := func(ctx context.Context, out io.Writer, task *video.Task) error {
		time.Sleep(500 * time.Millisecond) // the bubble's clock: it ends before the next sign of life
		return film(ctx, out, task)
	}
	inWorld(t, sleepy, func(w *world) {
		j := w.create("a lighthouse")
		stop := w.run(w.line)
		w.await(j.ID, video.Running)
		if _, err := w.store.ChangeVideo(w.t.Context(), j.ID, func(j *video.Job) (*usage.Settlement, error) {
			j.Node, j.Attempts = "other", 2
			return nil, nil
		}); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		if now := w.find(j.ID); now.Status != video.Running || now.Node != "other" || len(w.kept()) != 0 || len(w.settlements()) != 0 {
			w.t.Errorf("the job is %+v with files %q and %d settlements, want it the other's", now, w.kept(), len(w.settled))
		}
	})
}

// A job that runs at a vendor is continued with the credential that it was started with.
func TestUpstream(t *testing.T) {
	var began atomic.Int32
	vendor := func(ctx context.Context, out io.Writer, task *video.Task) error {
		if task.Upstream == "" {
			began.Add(1)
			if err := task.Begun(ctx, "up_1"); err != nil {
				return err
			}
			return endless(ctx, out, task)
		}
		if task.Upstream != "up_1" {
			return errors.New("another job")
		}
		return film(ctx, out, task)
	}
	inWorld(t, vendor, func(w *world) {
		stop := w.run(w.line)
		j := w.create("a lighthouse")
		w.await(j.ID, video.Running)
		synctest.Wait()
		if now := w.find(j.ID); now.Upstream != "up_1" || now.Credential != "c1" {
			w.t.Errorf("a job that was begun is %+v, want its id over there kept", now)
		}
		stop()
		// The operator has switched to another renderer; the old one is still there.
		w.settings.Engine = video.Engine{Name: "new", Credential: "c2", Renderer: renderer(func(context.Context, io.Writer, *video.Task) error {
			return errors.New("the new renderer was asked for what the old one began")
		})}
		w.settings.Engines = append(w.settings.Engines, w.settings.Engine)
		stop = w.run(w.open("node2"))
		now := w.await(j.ID, video.Succeeded)
		stop()
		if began.Load() != 1 || now.Renderer != "test" || w.settlements()[0].Provider != "test" {
			w.t.Errorf("the job was begun %d times and made by %s, want once and by the first", began.Load(), now.Renderer)
		}
		// Here the old renderer is gone as well.
		other := w.create("a lighthouse")
		if _, err := w.store.ChangeVideo(w.t.Context(), other.ID, func(j *video.Job) (*usage.Settlement, error) {
			j.Upstream, j.Renderer, j.Credential = "up_2", "old", "c0"
			return nil, nil
		}); err != nil {
			w.t.Fatal(err)
		}
		defer w.run(w.open("node3"))()
		if now := w.await(other.ID, video.Failed); now.Reason != video.Provider {
			w.t.Errorf("a job without its credential failed with %q, want provider_error", now.Reason)
		}
	})
}

// A pool renders a limited number of jobs at the same time, and accounts take turns.
func TestWorkers(t *testing.T) {
	var running, most atomic.Int32
	inWorld(t, func(ctx context.Context, out io.Writer, task *video.Task) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(10 * time.Second)
		return film(ctx, out, task)
	}, func(w *world) {
		var last *video.Job
		for range 6 {
			last = w.create("x")
			time.Sleep(time.Second)
		}
		began := time.Now()
		defer w.run(w.line)()
		w.await(last.ID, video.Succeeded)
		if took := time.Since(began); most.Load() != 2 || took < 30*time.Second || took > 35*time.Second {
			w.t.Errorf("six jobs of ten seconds took %v with %d at once, want 30 s with 2", took, most.Load())
		}
	})
}
