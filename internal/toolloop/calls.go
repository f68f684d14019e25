package toolloop

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"sluice/internal/excerpt"
	"sluice/internal/jsonscan"
	"sluice/internal/mcpclient"
)

const (
	atOnce  = 16       // calls that run at the same time
	maxHeld = 16 << 20 // bytes of all results of a request together
)

// run runs the calls of the turn that are not the caller's, at the same time.
func (s *Stream) run() {
	var hidden []*call
	for _, c := range s.turn.calls {
		if c.ours == "" {
			hidden = append(hidden, c)
		}
	}
	s.runAll(hidden)
}

// runAll runs calls and waits for them. Each ends in a text for the model.
func (s *Stream) runAll(calls []*call) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		slot = make(chan struct{}, atOnce)
	)
	for _, c := range calls {
		all.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			asked, failed := s.runOne(c)
			mu.Lock()
			defer mu.Unlock()
			if asked {
				s.spent.Calls++
				if failed {
					s.spent.Failed++
				}
			}
			s.hold(c)
		})
	}
	all.Wait()
}

// runOne runs a call, and tells whether its server was asked and whether that failed.
func (s *Stream) runOne(c *call) (asked, failed bool) {
	if c.remote == nil {
		c.text = fmt.Sprintf("Error: there is no tool called %q.", excerpt.Of(c.name, 100))
		return false, true
	}
	arguments := strings.TrimSpace(c.arguments.String())
	if arguments == "" {
		arguments = "{}"
	}
	if arguments[0] != '{' || !json.Valid([]byte(arguments)) {
		c.text = "Error: the arguments are not a JSON object."
		return false, true
	}
	result, err := c.remote.server.Call(s.ctx, c.remote.name, json.RawMessage(arguments))
	if err != nil {
		reason := "it failed"
		var f *mcpclient.Failure
		if errors.As(err, &f) {
			reason = f.Reason
		}
		c.text = fmt.Sprintf("Error: the MCP server %q gave no result: %s.", excerpt.Of(c.remote.label, 100), reason)
		return true, true
	}
	c.text, c.images = result.Text, result.Images
	if result.IsError {
		c.text = "Error: " + c.text
	}
	return true, result.IsError
}

// hold fits a result into what the model and the request's bounds take.
func (s *Stream) hold(c *call) {
	var taken []mcpclient.Image
	for _, image := range c.images {
		if s.ask.Images && imageType.MatchString(image.MIMEType) {
			taken = append(taken, image)
			continue
		}
		c.text += fmt.Sprintf("\n[an image of %d bytes, which the model cannot see]", len(image.Data))
	}
	c.images = taken
	if c.text = strings.TrimPrefix(c.text, "\n"); c.text == "" {
		c.text = "(no content)"
	}
	size := len(c.text)
	for _, image := range c.images {
		size += len(image.Data)
	}
	if s.held+size > maxHeld {
		c.text, c.images = fmt.Sprintf("Error: the results of this request are larger than %d MiB together.", maxHeld>>20), nil
		size = len(c.text)
	}
	s.held += size
}

var imageType = regexp.MustCompile(`^image/[a-z0-9.+-]+$`)

// remember writes the turn and its results into the conversation. The images that tools returned are
// for the end of the turn, once all its calls are answered: tool messages hold texts alone.
func (s *Stream) remember() (images [][]byte) {
	t := &s.turn
	s.messages = append(s.messages, t.message())
	for _, c := range t.calls {
		if c.ours == "" {
			s.messages = append(s.messages, toolMessage(c.id, c.text))
		}
		if len(c.images) > 0 {
			images = append(images, imageMessage(c))
		}
	}
	return images
}

// message is the turn as an assistant message.
func (t *turn) message() []byte {
	b := []byte(`{"role":"assistant","content":`)
	if t.text.Len() == 0 {
		b = append(b, "null"...)
	} else {
		b = jsonscan.AppendQuoted(b, t.text.String())
	}
	b = append(b, `,"tool_calls":[`...)
	for i, c := range t.calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendQuoted(append(b, `{"id":`...), c.id)
		name, arguments := c.name, c.arguments.String()
		if name == "" {
			name = "unknown" // an empty one is refused everywhere
		}
		if arguments == "" {
			arguments = "{}"
		}
		b = jsonscan.AppendQuoted(append(b, `,"type":"function","function":{"name":`...), name)
		b = jsonscan.AppendQuoted(append(b, `,"arguments":`...), arguments)
		b = append(b, "}}"...)
	}
	return append(b, "]}"...)
}

func toolMessage(id, text string) []byte {
	b := jsonscan.AppendQuoted([]byte(`{"role":"tool","tool_call_id":`), id)
	b = jsonscan.AppendQuoted(append(b, `,"content":`...), text)
	return append(b, '}')
}

// imageMessage shows the model what a tool returned, in the one place where images may stand.
func imageMessage(c *call) []byte {
	b := jsonscan.AppendQuoted([]byte(`{"role":"user","content":[{"type":"text","text":`), fmt.Sprintf("Images that the tool %s returned:", c.name))
	b = append(b, '}')
	for _, image := range c.images {
		data := "data:" + image.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		b = jsonscan.AppendQuoted(append(b, `,{"type":"image_url","image_url":{"url":`...), data)
		b = append(b, "}}"...)
	}
	return append(b, "]}"...)
}
