package toolloop

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/telemetry"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/mcpclient"
)

const (
	// atOnce is the number of calls of one turn that run at the same time. A server may be slow, and a turn
	// may have up to maxCalls calls.
	atOnce = 16
	// maxHeld is the number of bytes of all results of a request together. They stay in memory and go to the
	// model again in every later turn.
	maxHeld = 16 << 20
)

// run runs the hidden calls of the turn and waits for them. The other calls are the caller's to answer.
func (s *Stream) run() {
	var hidden []*call
	for _, c := range s.turn.calls {
		if c.ours == "" {
			hidden = append(hidden, c)
		}
	}
	s.runAll(hidden)
}

// runAll runs calls at the same time and waits for all of them. Each call then has a text for the model,
// whatever happened. The lock guards the stream's counts, which each call adds to.
func (s *Stream) runAll(calls []*call) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex                    // guards s.spent and s.held
		slot = make(chan struct{}, atOnce) // holds one value for each call that is running
	)
	for _, c := range calls {
		all.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			called, failed := s.runOne(c)
			c.failed = failed
			mu.Lock()
			defer mu.Unlock()
			if called {
				s.spent.Calls++
				if failed {
					s.spent.Failed++
				}
			}
			s.hold(c)
		})
	}
	s.waiting(all.Wait)
}

// waiting counts the time of wait as that of the servers.
func (s *Stream) waiting(wait func()) {
	if s.task.Wait == nil {
		wait()
		return
	}
	s.task.Wait.Begin(time.Now())
	wait()
	s.task.Wait.End(time.Now())
}

// runOne runs one call and sets its text and images. Called reports whether its server was called, failed
// whether the call gave no result or an error. What the model did wrong is explained to the model: it can
// correct its arguments in the next turn.
func (s *Stream) runOne(c *call) (called, failed bool) {
	if c.remote == nil {
		c.text = fmt.Sprintf("Error: there is no tool called %q.", excerpt.Of(c.name, 100))
		return false, true
	}
	// Models write no arguments, or broken ones. Servers expect an object.
	arguments := strings.TrimSpace(c.arguments.String())
	if arguments == "" {
		arguments = "{}"
	}
	if arguments[0] != '{' || !json.Valid([]byte(arguments)) {
		c.text = "Error: the arguments are not a JSON object."
		return false, true
	}
	span := s.task.Span.Tool(excerpt.Of(c.remote.name, 100), c.id)
	defer span.End()
	result, err := c.remote.server.Call(s.ctx, c.remote.name, json.RawMessage(arguments))
	if span.Content() {
		span.Text(telemetry.AttrToolArguments, excerpt.Of(arguments, telemetry.MaxContent))
	}
	if err != nil { // the text is for the model, which may try another tool
		reason := "it failed"
		if f, ok := errors.AsType[*mcpclient.Failure](err); ok {
			reason = f.Reason
		}
		span.Fail("no_result")
		c.text = fmt.Sprintf("Error: the MCP server %q gave no result: %s.", excerpt.Of(c.remote.label, 100), reason)
		return true, true
	}
	c.text, c.images = result.Text, result.Images
	if span.Content() {
		span.Text(telemetry.AttrToolResult, excerpt.Of(result.Text, telemetry.MaxContent))
	}
	if result.IsError {
		span.Fail("tool_error")
		c.text = "Error: " + c.text
	}
	return true, result.IsError
}

// hold fits a result to what the model can take and to the bound of the request. An image that the model
// cannot see becomes a note, and an empty result becomes a text, since some providers refuse empty ones.
func (s *Stream) hold(c *call) {
	var taken []mcpclient.Image
	for _, image := range c.images {
		if s.task.Images && imageType.MatchString(image.MIMEType) {
			taken = append(taken, image)
			continue
		}
		c.text += fmt.Sprintf("\n[an image of %d bytes, which the model cannot see]", len(image.Data))
	}
	c.images = taken
	if c.text = strings.TrimPrefix(c.text, "\n"); c.text == "" {
		c.text = "(no content)"
	}
	// A result that does not fit is replaced by an error; those before it stay.
	size := len(c.text)
	for _, image := range c.images {
		size += len(image.Data)
	}
	if s.held+size > maxHeld { // the model learns that it must do with less
		c.text, c.images = fmt.Sprintf("Error: the results of this request are larger than %d MiB together.", maxHeld>>20), nil
		size = len(c.text)
	}
	s.held += size
}

// imageType matches the types that may be in a data: URL. The type comes from a server that we do not
// trust, so nothing else may get into the URL.
var imageType = regexp.MustCompile(`^image/[a-z0-9.+-]+$`)

// remember adds the turn and its results to the conversation. It returns the images of the results as
// messages: a tool message can contain only text, and a user message with images may follow only when all
// calls are answered.
func (s *Stream) remember() (images [][]byte) {
	t := &s.turn
	s.messages = append(s.messages, t.message())
	// The caller's calls have no result yet: the caller's next request brings it.
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

// message returns the turn as an assistant message with all its calls, hidden ones included. Providers refuse an empty
// name, and arguments that are not JSON.
func (t *turn) message() []byte {
	m := chat.Message{Role: chat.RoleAssistant}
	if t.text.Len() > 0 {
		m.Content = chat.Text(t.text.String())
	}
	for _, c := range t.calls {
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: c.id, Name: cmp.Or(c.name, "unknown"), Arguments: cmp.Or(c.arguments.String(), "{}")}.Past())
	}
	return m.Raw()
}

// toolMessage returns the result of a call as a message.
func toolMessage(id, text string) []byte {
	m := chat.Message{Role: chat.RoleTool, ToolCallID: id, Content: chat.Text(text)}
	return m.Raw()
}

// imageMessage returns the images of a result as a user message, the only kind that may contain images.
func imageMessage(c *call) []byte {
	parts := []chat.Part{chat.TextPart(chat.Text(fmt.Sprintf("Images that the tool %s returned:", c.name)))}
	for _, image := range c.images {
		data := "data:" + image.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		parts = append(parts, chat.ImagePart(jsonscan.AppendQuoted(nil, data), ""))
	}
	m := chat.Message{Role: chat.RoleUser, Content: chat.PartsOf(parts)}
	return m.Raw()
}
