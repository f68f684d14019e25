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

	format string // of a sound, such as wav
	data   []byte // the JSON string of file_data or data; nil if the caller sent none, such as only a file_id
}

// Data returns the media type and the base64 of the content. It reports false if the caller sent no content, or if
// nothing tells its type: neither a data: URL, nor the format, nor the ending of the name.
func (f *File) Data() (mediaType, data string, ok bool) {
	data = jsonscan.Unquote(f.data)
	switch head, rest, isURL := strings.Cut(data[:min(len(data), 256)], ","); {
	case f.Audio:
		if !isFormat(f.format) {
			return "", "", false
		}
		mediaType = "audio/" + f.format
	case isURL && len(head) >= 5 && strings.EqualFold(head[:5], "data:"):
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

// typeOf returns the media type of a file by the ending of its name; empty if it is not known. It is a list of our own: the
// one of the machine differs from place to place.
func typeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".pdf":
		return "application/pdf"
	case ".txt", ".log":
		return "text/plain"
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".html", ".htm":
		return "text/html"
	case ".json":
		return "application/json"
	case ".xml":
		return "text/xml"
	case ".doc":
		return "application/msword"
	case ".docx":
		return typeWord
	case ".xls":
		return "application/vnd.ms-excel"
	case ".xlsx":
		return typeSheet
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	}
	return ""
}

const (
	typeWord  = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	typeSheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
)

// FileFormat returns the usual short name of a media type of documents, such as pdf or docx; empty for any other type.
func FileFormat(mediaType string) string {
	switch mediaType {
	case "application/pdf":
		return "pdf"
	case "text/csv":
		return "csv"
	case "application/msword":
		return "doc"
	case typeWord:
		return "docx"
	case "application/vnd.ms-excel":
		return "xls"
	case typeSheet:
		return "xlsx"
	case "text/html":
		return "html"
	case "text/markdown":
		return "md"
	case "text/plain", "text/xml", "application/json", "application/xml":
		return "txt"
	}
	return ""
}

// file reads the value of file or input_audio. It refuses nothing but what is no JSON: members of other types are those of
// a provider that knows them.
func (p *parser) file(audio bool) *File {
	if p.peek() != '{' {
		p.skip()
		return nil
	}
	f := &File{Audio: audio}
	if !p.object("an object") {
		return nil
	}
	shape := fileShape
	if audio {
		shape = audioShape
	}
	for p.member() {
		name := string(p.key)
		_, known := shape[name]
		content := audio && name == "data" || !audio && name == "file_data"
		switch {
		case !p.holds():
			p.other(shape)
		case p.peek() == '"' && known && allowance.ID(name) != nil:
			p.unvetted(p.path())
			if t, ok := p.quoted(); ok && t.size > 0 {
				f.Stored, p.req.Reserved = true, true
			}
		case p.peek() != '"', !content && name != "format" && name != "filename":
			p.unvetted(p.path())
			p.other(shape)
		default:
			t, ok := p.quoted()
			switch {
			case !ok:
			case content:
				f.data = p.body[t.from:t.to]
				if !p.isData(t) {
					p.unvetted(p.path())
				}
			case audio && name == "format":
				f.format = p.unquoted(t)
			case !audio && name == "filename":
				f.Name = p.unquoted(t)
			}
		}
	}
	return f
}
