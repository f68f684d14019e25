package video

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// maxParts is the most parts that a form may have; OpenAI's has five fields.
const maxParts = 32

// ParseVideo reads and checks the body of OpenAI's POST /videos, which is JSON or, as its libraries send it, a form.
// The defaults are those of Parse, and fields that it does not know are ignored, too.
func ParseVideo(contentType string, body []byte, model string) (Request, error) {
	r := Request{Model: model, Width: defaultWidth, Height: defaultHeight, Seconds: defaultSeconds}
	read := members
	if kind, params, err := mime.ParseMediaType(contentType); err == nil && kind == "multipart/form-data" {
		read = func(body []byte) (map[string]json.RawMessage, error) { return formFields(body, params["boundary"]) }
	}
	fields, err := read(body)
	if err != nil {
		return r, err
	}
	if err := r.readPrompt(fields["prompt"]); err != nil {
		return r, err
	}
	if err := readModel(fields["model"], model); err != nil {
		return r, err
	}
	if fields["input_reference"] != nil {
		return r, fault.New(fault.Invalid, "input_reference is not supported: a video is made from its prompt alone. Leave the field out.").At("input_reference")
	}
	if err := r.readSize(fields["size"]); err != nil {
		return r, err
	}
	if err := r.readSeconds(fields["seconds"]); err != nil {
		return r, err
	}
	return r, r.readMaxCost(fields["max_cost"])
}

// readSize reads an optional size such as "1280x720".
func (r *Request) readSize(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var size string
	_ = json.Unmarshal(raw, &size) // what is no string is refused below
	width, height, _ := strings.Cut(size, "x")
	w, errW := strconv.Atoi(width)
	h, errH := strconv.Atoi(height)
	if errW != nil || errH != nil || !isSide(w) || !isSide(h) {
		return fault.New(fault.Invalid, `size must be a width and a height such as "1280x720", each one of %s; got %s.`, allSides(), excerpt.Of(string(raw), maxEcho)).At("size")
	}
	r.Width, r.Height = w, h
	return nil
}

// readSeconds reads an optional length, which OpenAI writes as a string.
func (r *Request) readSeconds(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	digits := raw
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		digits = json.RawMessage(text)
	}
	n, ok := whole(digits)
	if !ok || n < 1 || n > maxSeconds {
		return fault.New(fault.Invalid, "seconds must be a whole number from 1 to %d; got %s.", maxSeconds, excerpt.Of(string(raw), maxEcho)).At("seconds")
	}
	r.Seconds = n
	return nil
}

// formFields returns the fields of a form as members of a JSON object. As in one, a field that occurs twice is refused.
func formFields(body []byte, boundary string) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	form := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) && len(fields) > 0 {
			return fields, nil
		}
		if err != nil {
			return nil, badForm()
		}
		name, value, err := readPart(part)
		if err != nil {
			return nil, err
		}
		// An object has a part for each of its members.
		if fields[name] != nil && name != "input_reference" {
			return nil, fault.New(fault.Invalid, "The form has the field %s twice. Send it once.", excerpt.Of(name, maxEcho)).At(excerpt.Of(name, maxEcho))
		}
		fields[name] = value
	}
	return nil, fault.New(fault.Invalid, "The form has more than %d fields.", maxParts)
}

// readPart returns the name of a field and its value as a JSON string. Nobody reads what is in a file. A member of an
// object, which libraries send as input_reference[image_url], has the name of the object.
func readPart(part *multipart.Part) (string, json.RawMessage, error) {
	name, _, _ := strings.Cut(part.FormName(), "[")
	value, err := io.ReadAll(part)
	if err != nil {
		return "", nil, badForm()
	}
	if part.FileName() != "" {
		value = nil
	}
	if !utf8.Valid(value) {
		return "", nil, fault.New(fault.Invalid, "%s is not UTF-8. Send text only.", excerpt.Of(name, maxEcho)).At(excerpt.Of(name, maxEcho))
	}
	quoted, err := json.Marshal(string(value))
	return name, quoted, err
}

// badForm is the fault of a body that is not the form that its type says.
func badForm() error {
	return fault.New(fault.Invalid, "The body cannot be read as multipart/form-data. Send a form with the boundary that the Content-Type names, or JSON.")
}
