package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/video"
)

// Whatever range a player asks for, it gets a part of the file, the whole, or our error object.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=0-0", "bytes=-1", "bytes=10-5", "bytes=99-", "bytes=0-1,3-4", "bytes=0-,0-,0-", "x=1", "", "bytes=9223372036854775807-", "bytes=--1"} {
		f.Add(s, "")
		f.Add(s, `"abc"`)
	}
	content := []byte("0123456789")
	f.Fuzz(func(t *testing.T, ranges, match string) {
		w := httptest.NewRecorder()
		x := &exchange{ResponseWriter: w}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Range"], r.Header["If-Range"] = []string{ranges}, []string{match}
		err := x.sendVideo(r, &video.Job{SHA256: "abc", Generation: "g", FinishedAt: time.Unix(1, 0)}, file{bytes.NewReader(content)})
		if err != nil && fault.From(err).Status() == http.StatusRequestedRangeNotSatisfiable {
			if w.Body.Len() > 0 || x.begun() {
				t.Errorf("the range %q, %q = %s before the error", ranges, match, w.Body)
			}
			x.answer(err, r)
			err = nil
		}
		switch body := w.Body.Bytes(); {
		case err != nil:
			t.Errorf("the range %q, %q = %v", ranges, match, err)
		case w.Code == http.StatusOK && !bytes.Equal(body, content):
			t.Errorf("the range %q, %q = the file %q", ranges, match, body)
		case w.Code == http.StatusPartialContent && w.Header().Get("Content-Range") != "" && (len(body) == 0 || !bytes.Contains(content, body)):
			t.Errorf("the range %q, %q = the part %q", ranges, match, body)
		case w.Code == http.StatusRequestedRangeNotSatisfiable && !bytes.Contains(body, []byte(`"error"`)):
			t.Errorf("the range %q, %q = %s", ranges, match, body)
		}
	})
}

type file struct{ io.ReadSeeker }

func (file) Close() error { return nil }
