package video_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/video"
)

func TestStoredBytes(t *testing.T) {
	inWorld(t, film, func(w *world) {
		w.settings.AccountBytes = 60
		w.line.Apply(w.settings)
		defer w.run(w.line)()
		for range 2 {
			w.await(w.create("a lighthouse").ID, video.Succeeded)
		}
		_, _, _, err := w.line.Create(w.t.Context(), w.order("x"))
		if f := fault.From(err); f.Kind != fault.RateLimited || !strings.Contains(f.Message, "expires in 5m0s") || f.RetryAfter == 0 {
			w.t.Errorf("Create = %v, want a 429 that says when a video expires", err)
		}
		time.Sleep(keep + 2*time.Minute)
		synctest.Wait()
		w.create("x")
	})
}

func TestExpiry(t *testing.T) {
	inWorld(t, film, func(w *world) {
		done := w.create("done")
		stop := w.run(w.line)
		w.await(done.ID, video.Succeeded)
		stop()
		late := w.create("waits too long")
		time.Sleep(keep + 2*time.Minute)
		w.settings.Workers = 0
		w.line.Apply(w.settings)
		defer w.run(w.line)()
		if j := w.await(late.ID, video.Failed); j.Reason != video.Expired {
			w.t.Errorf("a job that waited too long failed with %q, want expired", j.Reason)
		}
		if j, err := w.store.FindVideo(w.t.Context(), done.ID); j != nil || err != nil || len(w.kept()) != 0 {
			w.t.Errorf("an expired job is %+v, %v, with files %q, want nothing", j, err, w.kept())
		}
		time.Sleep(keep + 2*time.Minute)
		synctest.Wait()
		if j, err := w.store.FindVideo(w.t.Context(), late.ID); j != nil || err != nil {
			w.t.Errorf("later the failed job is %+v, %v, want nothing", j, err)
		}
	})
}

func TestOverdue(t *testing.T) {
	inWorld(t, endless, func(w *world) {
		defer w.run(w.line)()
		j := w.create("never ready")
		time.Sleep(keep + time.Minute)
		synctest.Wait()
		if j := w.find(j.ID); j.Status != video.Failed || j.Reason != video.Expired || len(w.kept()) != 0 {
			w.t.Errorf("a job that ran too long is %+v with files %q, want it expired", j, w.kept())
		}
	})
}
