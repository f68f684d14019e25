package sharing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// Chat is a conversation, with one model or with several side by side.
type Chat struct {
	Title  string     `json:"title"`
	System string     `json:"system,omitempty"` // the system prompt, if its owner shares it
	Lanes  list[Lane] `json:"lanes"`
}

// Lane is the conversation with one model.
type Lane struct {
	Model    string        `json:"model"`
	Messages list[Message] `json:"messages"`
}

// Message is what one side has said.
type Message struct {
	Role     string       `json:"role"` // user or assistant
	Text     string       `json:"text,omitempty"`
	Model    string       `json:"model,omitempty"` // which has answered
	Thinking string       `json:"thinking,omitempty"`
	Pictures list[string] `json:"pictures,omitempty"` // data: URLs
	Files    list[string] `json:"files,omitempty"`    // names of files that were sent along and are not shared
	Calls    list[Call]   `json:"calls,omitempty"`
}

// Call is a call of a tool.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
}

// list is a list of JSON that has at most maxEntries entries: a few bytes of JSON can be an entry of a hundred.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	start, err := d.Token()
	if err != nil {
		return err
	}
	if start == nil {
		*l = nil
		return nil
	}
	if start != json.Delim('[') {
		return fault.New(fault.Invalid, "The conversation is malformed.")
	}
	for d.More() {
		if len(*l) == maxEntries {
			return fault.New(fault.TooLarge, "The conversation has more than %d messages or pictures, too many to share.", maxEntries)
		}
		var entry T
		if err := d.Decode(&entry); err != nil {
			return err
		}
		*l = append(*l, entry)
	}
	return nil
}

// parse reads a conversation and checks it.
func parse(body []byte) (*Chat, error) {
	if len(body) > MaxBody {
		return nil, TooLarge()
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	c := &Chat{}
	if err := d.Decode(c); err != nil {
		if f := fault.From(err); f.Kind != fault.Internal {
			return nil, err
		}
		return nil, fault.New(fault.Invalid, "The conversation is malformed.").Because(err)
	}
	if d.More() || len(c.Lanes) == 0 || len(c.Lanes) > maxLanes {
		return nil, fault.New(fault.Invalid, "A shared conversation is one with 1 to %d models.", maxLanes)
	}
	c.Title = cut(strings.TrimSpace(c.Title))
	said := 0
	for i := range c.Lanes {
		for j := range c.Lanes[i].Messages {
			if err := c.Lanes[i].Messages[j].check(); err != nil {
				return nil, err
			}
			said++
		}
	}
	if said == 0 {
		return nil, fault.New(fault.Invalid, "There is nothing to share yet. Send a message first.")
	}
	return c, nil
}

// TooLarge is the fault of a conversation beyond MaxBody.
func TooLarge() error {
	return fault.New(fault.TooLarge, "The conversation is larger than %d MiB, the most that can be shared. Fork it from a later message, or share it without its pictures.", MaxBody>>20)
}

// cut shortens a title.
func cut(title string) string {
	if len(title) <= maxTitle {
		return title
	}
	title = title[:maxTitle]
	for !utf8.ValidString(title) {
		title = title[:len(title)-1]
	}
	return title
}

// pictures are the kinds of pictures that a page shows. SVG is none of them: it is a document.
var pictures = []string{"data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,", "data:image/gif;base64,"}

// check refuses what a page cannot show.
func (m *Message) check() error {
	if m.Role != "user" && m.Role != "assistant" {
		return fault.New(fault.Invalid, "A message is of the role user or assistant, not %q.", excerpt.Of(m.Role, 40))
	}
	for _, p := range m.Pictures {
		ok := false
		for _, kind := range pictures {
			if data, is := strings.CutPrefix(p, kind); is {
				_, err := base64.StdEncoding.DecodeString(data)
				ok = err == nil
			}
		}
		if !ok {
			return fault.New(fault.Invalid, "A shared picture is a data: URL of a PNG, JPEG, WebP or GIF.")
		}
	}
	return nil
}
