package webui

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"sluice/internal/fault"
)

const (
	// maxForm is how many bytes a form may have.
	maxForm = 64 << 10
	// maxFields is how many fields a form, or the query of an address, may have. Each costs many times its
	// bytes once it is parsed.
	maxFields = 200
)

// readForm reads and parses the request's form. A handler that asks for a field finds it there; without
// this, FormValue would read without our bounds and say nothing of what went wrong.
func readForm(w http.ResponseWriter, r *http.Request) error {
	if strings.Count(r.URL.RawQuery, "&") >= maxFields {
		return tooManyFields()
	}
	if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// Answer at once where the form is refused: net/http would wait for the rest of it.
	_ = http.NewResponseController(w).EnableFullDuplex() // in process there is none
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return fault.New(fault.Invalid, "Forms are taken as application/x-www-form-urlencoded only.")
	}
	if r.ContentLength > maxForm {
		return formTooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	if err != nil {
		return fault.New(fault.Invalid, "The form ended before it was complete.").Because(err)
	}
	if len(body) > maxForm {
		return formTooLarge()
	}
	if bytes.Count(body, []byte("&")) >= maxFields {
		return tooManyFields()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Invalid, "The form, or the query of the address, is malformed.").Because(err)
	}
	return nil
}

func formTooLarge() error {
	return fault.New(fault.TooLarge, "The form is larger than %d KiB, the most that is accepted.", maxForm>>10)
}

func tooManyFields() error {
	return fault.New(fault.Invalid, "The form, or the query of the address, has more than %d fields.", maxFields)
}
