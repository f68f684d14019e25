package video_test

import (
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/video"
)

func TestLinks(t *testing.T) {
	inWorld(t, film, func(w *world) {
		stop := w.run(w.line)
		a, b := w.await(w.create("one").ID, video.Succeeded), w.await(w.create("two").ID, video.Succeeded)
		stop()
		link, err := url.Parse(w.line.Link(a))
		if err != nil || !strings.HasPrefix(link.String(), "https://api.example.com/files/"+a.Generation+".mp4?") || link.String() != w.open("node2").Link(a) {
			w.t.Fatalf("Link = %s, %v, want the same of every node", link, err)
		}
		expires, signature := link.Query().Get("expires"), link.Query().Get("signature")
		open := func(generation, expires, signature string) (string, error) {
			_, f, err := w.line.OpenLink(w.t.Context(), generation, expires, signature)
			if err != nil {
				return "", err
			}
			defer f.Close()
			content, err := io.ReadAll(f)
			return string(content), err
		}
		if content, err := open(a.Generation, expires, signature); err != nil || !strings.Contains(content, "film of one") {
			w.t.Errorf("OpenLink = %q, %v, want the film", content, err)
		}
		for name, l := range map[string][3]string{
			"another object":    {b.Generation, expires, signature},
			"a later end":       {a.Generation, expires + "0", signature},
			"no end":            {a.Generation, "", signature},
			"no signature":      {a.Generation, expires, ""},
			"another signature": {a.Generation, expires, strings.Repeat("0", 64)},
			"upper case":        {a.Generation, expires, strings.ToUpper(signature)},
			"shifted":           {a.Generation + "\n" + expires, "", signature},
		} {
			if _, err := open(l[0], l[1], l[2]); fault.From(err).Kind.Status() != 403 {
				w.t.Errorf("OpenLink with %s = %v, want 403", name, err)
			}
		}
		time.Sleep(keep + time.Second)
		if _, err := open(a.Generation, expires, signature); fault.From(err).Kind.Status() != 403 || !strings.Contains(fault.From(err).Message, "expired") {
			w.t.Errorf("OpenLink when it has expired = %v, want 403", err)
		}
		if _, err := w.line.Find(w.t.Context(), "acct_1", a.ID); !fault.Is(err, fault.NotFound) {
			w.t.Errorf("Find of an expired job = %v, want 404", err)
		}
	})
}
