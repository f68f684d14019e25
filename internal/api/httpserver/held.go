package httpserver

import (
	"net/http"
	"strings"
)

// Held is the ResponseWriter of a handler that is not ours. It holds back error replies, whose plain text is not our error
// object, so that they can be reported in the same form as all other errors.
type Held struct {
	http.ResponseWriter
	// PlainOnly lets errors pass that are not plain text.
	PlainOnly bool
	// Status is that of a reply that was held back, and Text its body; 0: there was none.
	Status int
	Text   strings.Builder
}

// WriteHeader holds back errors.
func (w *Held) WriteHeader(status int) {
	if status >= http.StatusBadRequest && (!w.PlainOnly || strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain")) {
		w.Status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write holds back the text of an error.
func (w *Held) Write(p []byte) (int, error) {
	if w.Status != 0 {
		return w.Text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *Held) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok && w.Status == 0 {
		f.Flush()
	}
}
