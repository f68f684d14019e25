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
	// maxForm is the maximum size of a form in bytes. The longest field, an answer to support,
	// has 8,000 characters.
	maxForm = 64 << 10
	// maxFields is the maximum number of fields in a form or a query string. A parsed field
	// takes many times its bytes.
	maxFields = 200
)

// readForm reads and parses the request's form, so that handlers can use FormValue. Without it
// FormValue would read the form itself, without our limits, and ignore errors.
func readForm(w http.ResponseWriter, r *http.Request) error {
	// Counting separators is cheap; parsing would allocate for each field.
	if strings.Count(r.URL.RawQuery, "&") >= maxFields {
		return tooManyFields()
	}
	if r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// Reply immediately if the form is refused: net/http would wait for the rest of it.
	_ = http.NewResponseController(w).EnableFullDuplex() // in-process requests have no connection
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return fault.New(fault.Invalid, "The form must be sent as application/x-www-form-urlencoded.")
	}
	// Refused by its announcement, before anything is read.
	if r.ContentLength > maxForm {
		return formTooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	if err != nil {
		return fault.New(fault.Invalid, "The form was cut off before its end.").Because(err)
	}
	if len(body) > maxForm {
		return formTooLarge()
	}
	if bytes.Count(body, []byte("&")) >= maxFields {
		return tooManyFields()
	}
	// ParseForm reads it from here, within the limits.
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Invalid, "The form or the query string is malformed.").Because(err)
	}
	return nil
}

func formTooLarge() error {
	return fault.New(fault.TooLarge, "The form is larger than %d KiB, the maximum size.", maxForm>>10)
}

func tooManyFields() error {
	return fault.New(fault.Invalid, "The form or the query string has more than %d fields.", maxFields)
}
