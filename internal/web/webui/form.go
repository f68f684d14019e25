package webui

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
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
	for name, values := range r.Form {
		for _, v := range append(values, name) {
			if !excerpt.IsText(v) { // PostgreSQL fails on it
				return fault.New(fault.Invalid, "The form holds a NUL character, or bytes that are not UTF-8. Send text only.")
			}
		}
	}
	return nil
}

// formTooLarge is the fault of a form beyond maxForm.
func formTooLarge() error {
	return fault.New(fault.TooLarge, "The form is larger than %d KiB, the maximum size.", maxForm>>10)
}

// tooManyFields is the fault of a form beyond maxFields. Each field costs an entry in a map, so bytes alone do not bound it.
func tooManyFields() error {
	return fault.New(fault.Invalid, "The form or the query string has more than %d fields.", maxFields)
}

// Complaint splits an error into a form field and a text for the user. Errors that are not the
// user's fault are returned as rest: they become an error page.
func Complaint(err error) (field, text string, rest error) {
	if err == nil {
		return "", "", nil
	}
	// The message of a fault is written for users. Internal and Unavailable are logged and
	// shown as an error page, because no change to the form would help.
	f := fault.From(err)
	switch f.Kind {
	case fault.Internal, fault.Unavailable:
		return "", "", err
	}
	return f.Param, Sentence(f.Message), nil
}

// Sentence adds a capital letter and a full stop to a message. Error messages of the API have
// neither.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	if c := text[0]; c >= 'a' && c <= 'z' {
		text = string(c-'a'+'A') + text[1:]
	}
	if last := text[len(text)-1]; last != '.' && last != '!' && last != '?' {
		text += "."
	}
	return text
}

// Problems holds the errors of a form by field name. The key "" holds the error of the whole
// form.
type Problems map[string]string

// parts returns the errors that were joined, or the error itself.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, parts(one)...)
	}
	return list
}

// Refused returns the problems to show when a form is rendered again after err, and the status
// of that page. fields are the fields that the form shows: an error about any other field
// concerns the whole form. Of errors that are joined, each is shown at its field. Internal errors are
// returned as they are.
func Refused(err error, fields ...string) (Problems, int, error) {
	problems := Problems{}
	for _, one := range parts(err) {
		field, text, rest := Complaint(one)
		if rest != nil {
			return nil, 0, rest
		}
		if !slices.Contains(fields, field) {
			field = ""
		}
		if problems[field] == "" {
			problems[field] = text
		}
	}
	// The form is shown with the status of the error, so that scripts and monitoring see the
	// refusal.
	return problems, fault.From(err).Kind.Status(), nil
}
