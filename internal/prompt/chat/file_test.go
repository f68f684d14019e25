package chat

import (
	"strings"
	"testing"
)

func TestFileData(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBE"}}`:                                "application/pdf JVBE",
		`{"type":"file","file":{"file_data":"DATA:Text/Plain;charset=utf-8;base64,aGk="}}`:                       "text/plain aGk=",
		`{"type":"file","file":{"file_data":"data:image\/jpg;base64,\/9j\/"}}`:                                   "image/jpeg /9j/",
		`{"type":"file","file":{"filename":"a.CSV","file_data":"YSxi"}}`:                                         "text/csv YSxi",
		`{"file":{"file_data":"JVBERi0x"},"type":"file"}`:                                                        "application/pdf JVBERi0x",
		`{"type":"file","file":{"filename":"a.docx","file_data":"UEs="}}`:                                        typeWord + " UEs=",
		`{"type":"file","file":{"filename":"a.unknown","file_data":"UEs="}}`:                                     "",
		`{"type":"file","file":{"file_data":"data:application/pdf,plain"}}`:                                      "",
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,"}}`:                                    "",
		`{"type":"file","file":{"file_id":"file-1"}}`:                                                            "",
		`{"type":"file","file":{"file_data":7,"filename":["a.pdf"]}}`:                                            "",
		`{"type":"file","file":{}}`:                                                                              "",
		`{"type":"input_audio","input_audio":{"format":"mp3","data":"//uQ"}}`:                                    "audio/mp3 //uQ",
		`{"type":"input_audio","input_audio":{"data":"//uQ"}}`:                                                   "",
		`{"type":"input_audio","input_audio":{"data":"//uQ","format":"../x"}}`:                                   "",
		`{"type":"input_audio","input_audio":{"format":"wav"}}`:                                                  "",
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,` + strings.Repeat("JVBE", 200) + `"}}`: "application/pdf " + strings.Repeat("JVBE", 200),
	} {
		r, err := Parse([]byte(`{"model":"m","messages":[{"role":"user","content":[` + part + `]}]}`))
		if err != nil {
			t.Errorf("Parse(%s) = %v", part, err)
			continue
		}
		kind, data, ok := r.Messages[0].Content.Parts()[0].File.Data()
		got := ""
		if ok {
			got = kind + " " + data
		}
		if got != want {
			t.Errorf("Data of %.100s = %q, want %q", part, got, want)
		}
	}
}

// A file of anybody but a user is foreign to all but one dialect.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	r, err := Parse([]byte(`{"model":"m","messages":[{"content":[{"type":"file","file":{}}],"role":"user"},{"content":[{"type":"text","text":"a"},{"type":"file","file":{}}],"role":"assistant"}]}`))
	want := Foreign{"messages[1].content[1]", "parts of type file", ""}
	if err != nil || r.ForeignBesideFiles() != want || r.Foreign() != (Foreign{"messages[0].content[0]", "parts of type file", ""}) {
		t.Errorf("Foreign = %+v, %+v, %v, want %+v", r.ForeignBesideFiles(), r.Foreign(), err, want)
	}
}
