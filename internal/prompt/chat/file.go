package chat

import (
	"path"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
)

// File is a part that is a file or a sound. Its content is not checked here: providers differ in what they read.
type File struct {
	Audio bool   // the part is of type input_audio
	Name  string // of a file, as the caller gave it; may be empty
	// Stored says that the caller names a file that is stored at the vendor, by its file_id.
	Stored bool

	raw      []byte // the caller's JSON of the object; nil if a door made it
	unvetted string // the path of the first member from which an upstream might take an address that nobody has checked
	format   string // of a sound, such as wav
	data     []byte // the JSON string of file_data or data; nil if the caller sent none, such as only a file_id
}

// Data returns the media type and the base64 of the content. It reports false if the caller sent no content, or if
// nothing tells its type: neither a data: URL, nor the format, nor the ending of the name.
//
// A media type given by the caller wins over the name. Base64 that begins with the signature of a
// PDF is one, whatever its name says.
func (f *File) Data() (mediaType, data string, ok bool) {
	data = jsonscan.Unquote(f.data)
	switch head, rest, isURL := strings.Cut(data[:min(len(data), 256)], ","); {
	case f.Audio:
		if !isFormat(f.format) {
			return "", "", false
		}
		mediaType = "audio/" + f.format
	case isURL && isDataURL(head):
		head = strings.ToLower(head[5:])
		data = data[len(data[:min(len(data), 256)])-len(rest):]
		if !strings.HasSuffix(head, ";base64") {
			return "", "", false
		}
		mediaType, _, _ = strings.Cut(head, ";")
		if mediaType == "image/jpg" { // clients write it and vendors refuse it
			mediaType = "image/jpeg"
		}
	case strings.HasPrefix(data, "JVBERi"): // %PDF-
		mediaType = "application/pdf"
	default:
		mediaType = typeOf(f.Name)
	}
	return mediaType, data, mediaType != "" && data != ""
}

// kind returns the type of the part.
func (f *File) kind() string {
	if f.Audio {
		return "input_audio"
	}
	return "file"
}

// isFormat reports whether a word can be the name of a format of sound.
func isFormat(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

// fileTypes are the types of files: the ending of the name, the media type, and the usual short name of documents. It is a
// list of our own: the one of the machine differs from place to place.
var fileTypes = []struct{ ending, mediaType, format string }{
	{".pdf", "application/pdf", "pdf"},
	{".txt", "text/plain", "txt"},
	{".log", "text/plain", "txt"},
	{".md", "text/markdown", "md"},
	{".csv", "text/csv", "csv"},
	{".html", "text/html", "html"},
	{".htm", "text/html", "html"},
	{".json", "application/json", "txt"},
	{".xml", "text/xml", "txt"},
	{"", "application/xml", "txt"},
	{".doc", "application/msword", "doc"},
	{".docx", typeWord, "docx"},
	{".xls", "application/vnd.ms-excel", "xls"},
	{".xlsx", typeSheet, "xlsx"},
	{".png", "image/png", ""},
	{".jpg", "image/jpeg", ""},
	{".jpeg", "image/jpeg", ""},
	{".gif", "image/gif", ""},
	{".webp", "image/webp", ""},
}

const (
	typeWord  = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	typeSheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
)

// typeOf returns the media type of a file by the ending of its name; empty if it is not known.
func typeOf(name string) string {
	ending := strings.ToLower(path.Ext(name))
	for _, t := range fileTypes {
		if t.ending == ending && ending != "" {
			return t.mediaType
		}
	}
	return ""
}

// FileFormat returns the usual short name of a media type of documents, such as pdf or docx; empty for any other type.
func FileFormat(mediaType string) string {
	for _, t := range fileTypes {
		if t.mediaType == mediaType {
			return t.format
		}
	}
	return ""
}

// file reads the value of file or input_audio. It refuses nothing but what is no JSON: members of other types are those of
// a provider that knows them.
func (p *parser) file(audio bool) *File {
	from := p.pos
	p.other(partShape)
	if p.failed() || p.body[from] != '{' {
		return nil
	}
	f := newFile(ValueOf(p.body[from:p.pos]), audio)
	if f.unvetted != "" {
		p.unvetted(p.path() + f.unvetted)
	}
	p.req.Reserved = p.req.Reserved || f.Stored
	return f
}

// newFile returns the file, or the sound, that an object describes.
//
// A member is vetted if no upstream can take an address from it: data that looks like data, a
// name, a format. An id of a stored file is not vetted either, and counts as something that the
// operator must allow.
func newFile(v Value, audio bool) *File {
	f := &File{Audio: audio, raw: v.raw}
	content, label, shape := "file_data", "filename", fileShape
	if audio {
		content, label, shape = "data", "format", audioShape
	}
	for w := v.Walk(); w.Next(); {
		name, m := string(w.Key), w.Value
		_, known := shape[name]
		vetted := true
		switch {
		case !m.Holds():
		case m.IsText() && name == content:
			f.data = m.raw
			vetted = isData(m)
		case m.IsText() && name == label && audio:
			f.format = m.Text()
		case m.IsText() && name == label:
			f.Name = m.Text()
		case m.IsText() && (name == "format" || name == "filename"):
		case m.IsText() && known && allowance.ID(name) != nil:
			vetted = false
			f.Stored = f.Stored || len(m.raw) > len(`""`)
		default:
			vetted = false
		}
		if !vetted && f.unvetted == "" {
			f.unvetted = keyPath(name)
		}
	}
	return f
}
