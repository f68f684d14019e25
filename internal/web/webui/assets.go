package webui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"sluice/internal/kit/fault"
)

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.977 generate -include-version=false
//go:generate go run sluice/internal/web/webui/pack

//go:embed assets/*.js.gz assets/*.css.gz assets/*.LICENSE assets/*.svg
var files embed.FS

// asset is a file as it is served: its content type, a hash of its content, and both
// encodings.
type asset struct {
	kind    string
	tag     string
	plain   []byte
	zipped  []byte
	address string
}

// assets reads every file once, on first use. Scripts and styles are stored compressed: those of others as they came, and
// ours by the command pack, from the folder sources. The address of a file contains a hash of its content, so browsers
// may cache it forever.
var assets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{}
	list, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // the files are embedded in the program
	}
	for _, entry := range list {
		name := entry.Name()
		plain, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		name, packed := strings.CutSuffix(name, ".gz")
		zipped := plain
		if packed {
			plain = unzip(zipped)
		} else {
			zipped = zip(plain)
		}
		sum := sha256.Sum256(plain)
		a := &asset{kind: mime.TypeByExtension(path.Ext(name)), tag: hex.EncodeToString(sum[:6]), plain: plain, zipped: zipped}
		if a.kind == "" {
			a.kind = "text/plain; charset=utf-8"
		}
		a.address = "/assets/" + name + "?v=" + a.tag
		all[name] = a
	}
	return all
})

// zip compresses a file.
func zip(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain) // a bytes.Buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// unzip decompresses a file that is embedded in the program.
func unzip(zipped []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		panic(err) // a test reads it
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return plain
}

// Asset returns the address of a file in the assets directory. It panics if there is none.
func Asset(name string) string {
	if a := assets()[name]; a != nil {
		return a.address
	}
	panic("webui: there is no asset " + name) // a typo, found by every test that renders the page
}

// notFound replies with the error object: clients that request files are programs, not people.
func notFound(w http.ResponseWriter, r *http.Request) {
	f := fault.New(fault.NotFound, "There is no such file.")
	f.SetRetry(w.Header())
	f.Reply(w, r, f.Object().Body())
}

// ServeAsset serves GET /assets/{name}.
func ServeAsset(w http.ResponseWriter, r *http.Request) {
	a := assets()[r.PathValue("name")]
	if a == nil {
		notFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the browser disconnected
	}
}

// ServeText serves a file that is part of the program and no asset, such as a picture of the guide. What a browser does not
// show as a picture, it shows as text.
func ServeText(w http.ResponseWriter, r *http.Request, name string, text []byte) {
	kind := mime.TypeByExtension(path.Ext(name))
	if !strings.HasPrefix(kind, "image/") {
		kind = "text/plain; charset=utf-8"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, no-cache")
	tag := tagOf(text)
	if r.URL.Query().Get("v") == tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if unchanged(w, r, `"`+tag+`"`) {
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // an error means that the browser disconnected
	}
}
