package gemini

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// request is the body of generateContent and streamGenerateContent (ai.google.dev/api/generate-content). Only the
// members that we write are listed.
type request struct {
	Contents          []content  `json:"contents"`
	SystemInstruction content    `json:"systemInstruction,omitzero"`
	Tools             []toolbox  `json:"tools,omitempty"`
	ToolConfig        toolConfig `json:"toolConfig,omitzero"`
	GenerationConfig  generation `json:"generationConfig,omitzero"`
}

// content is one turn, of the user or of the model. Results of tools are the user's. The instructions are a content
// without a role.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// The two roles of a turn.
const (
	roleUser  = "user"
	roleModel = "model"
)

// part is a piece of a turn. One of its members is set; Thought and a signature may stand beside it. It serves
// requests and replies alike.
type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

// inlineData is an image, a file or a sound that is sent along, in the body of the request.
type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

// fileData is an image that Google fetches. Package provider has checked that the address is public.
type fileData struct {
	MIMEType string `json:"mimeType"`
	FileURI  string `json:"fileUri"`
}

// functionCall is a tool call. Older models give no ID. Args is an object, never a string of JSON as in our API.
type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// functionResponse is the result of a tool. Models without ids match it to its call by the name.
type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"` // an object; see result
}

// translation is the state of translate, for one call.
type translation struct {
	ctx   context.Context //nolint:containedctx // one call's, for what is recalled of earlier turns
	call  *provider.Call
	out   request
	names map[string]string // of the functions that were called, by the ids of the calls
	later []part            // system messages that wait for the end of the results of tools
}

// translate returns the body of a call, and notes in the call which fields are dropped. It returns a fault if the
// request asks for something that Gemini cannot do.
//
// Messages are read in order, since the result of a tool needs the name of the call before it.
func translate(ctx context.Context, call *provider.Call) (*request, error) {
	if err := call.PlainBesideFiles(); err != nil {
		return nil, err
	}
	t := &translation{ctx: ctx, call: call, names: map[string]string{}}
	for i := range call.Request.Messages {
		if err := t.message(i, &call.Request.Messages[i]); err != nil {
			return nil, err
		}
	}
	t.instruct()
	// Other vendors answer instructions alone. Gemini requires a turn of the user, so they become one.
	if len(t.out.Contents) == 0 && t.out.SystemInstruction.Parts != nil {
		t.out.Contents = []content{{Role: roleUser, Parts: t.out.SystemInstruction.Parts}}
		t.out.SystemInstruction = content{}
	}
	if len(t.out.Contents) == 0 {
		return nil, fault.New(fault.Invalid, "messages holds no text: this model needs some to answer").At("messages")
	}
	if err := t.configure(); err != nil {
		return nil, err
	}
	call.Drop("user")
	call.DropUnread()
	call.DropMarks()
	return &t.out, nil
}

// instruct adds the system messages that wait to the user's turn.
func (t *translation) instruct() {
	t.add(roleUser, t.later)
	t.later = nil
}

// message adds the message with index i to the turns, or to the instructions. Gemini has no turn for system messages behind
// others: they are the user's.
func (t *translation) message(i int, m *chat.Message) error {
	if m.Name != "" {
		t.call.Omit("messages[].name")
	}
	if m.Role == chat.RoleUser || m.Role == chat.RoleAssistant {
		t.instruct()
	}
	switch m.Role {
	case chat.RoleSystem:
		switch text := m.Content.Text(); {
		case text == "":
		case len(t.out.Contents) > 0:
			t.later = append(t.later, part{Text: provider.Instruction(text)})
		default:
			t.out.SystemInstruction.Parts = append(t.out.SystemInstruction.Parts, part{Text: text})
		}
	case chat.RoleUser:
		parts, err := t.userParts(i, m)
		if err != nil {
			return err
		}
		t.add(roleUser, parts)
	case chat.RoleAssistant:
		t.add(roleModel, t.modelParts(m))
	case chat.RoleTool:
		// The caller's message has only the id of the call. Its name is that of an earlier message, if there is one.
		t.add(roleUser, []part{{FunctionResponse: &functionResponse{
			ID: m.ToolCallID, Name: t.names[m.ToolCallID], Response: result(m.Content.Text()),
		}}})
	}
	return nil
}

// add appends parts to the last turn if it is of the same role, and else begins a turn with them. Results of tools
// get a turn of their own, even between texts of the user: Gemini refuses a turn that does not have as many results
// as the turn before it has calls.
func (t *translation) add(role string, parts []part) {
	if len(parts) == 0 {
		return // the message had only empty texts, which Gemini refuses
	}
	// The first part of a turn tells whether it is one of results: turns are never mixed.
	if n := len(t.out.Contents); n > 0 {
		last := &t.out.Contents[n-1]
		if last.Role == role && (last.Parts[0].FunctionResponse == nil) == (parts[0].FunctionResponse == nil) {
			last.Parts = append(last.Parts, parts...)
			return
		}
	}
	t.out.Contents = append(t.out.Contents, content{Role: role, Parts: parts})
}

// userParts returns the texts, images and files of a user message. i is the index of the message.
func (t *translation) userParts(i int, m *chat.Message) ([]part, error) {
	var parts []part
	for j, p := range m.Content.Parts() {
		if p.File != nil {
			mediaType, data, ok := p.File.Data()
			if !ok {
				return nil, provider.NoContent(p.File, i, j)
			}
			parts = append(parts, part{InlineData: &inlineData{MIMEType: mediaType, Data: data}})
			continue
		}
		if !p.IsImage() {
			if text := p.Text(); text != "" {
				parts = append(parts, part{Text: text})
			}
			continue
		}
		if p.Detail != "" && p.Detail != "auto" {
			t.call.Omit("image_url.detail")
		}
		// Gemini 2.0 does not fetch images from the web.
		image, ok := imagePart(p.ImageURL())
		if !ok || image.FileData != nil && strings.HasPrefix(t.call.Upstream, "gemini-2.0") {
			return nil, fault.New(fault.Invalid, "This model cannot fetch the image. Send it as a data: URL, or, for most models, under an https:// address.").
				At(fmt.Sprintf("messages[%d].content[%d].image_url.url", i, j))
		}
		parts = append(parts, image)
	}
	return parts, nil
}

// imagePart returns an image: inline if it is a data: URL, else by its address. It reports false for an address
// that is not https, which Google does not fetch.
func imagePart(address string) (part, bool) {
	if mimeType, data, ok := provider.DataURL(address); ok {
		return part{InlineData: &inlineData{MIMEType: mimeType, Data: data}}, true
	}
	const scheme = "https://"
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return part{}, false
	}
	// The address is not fetched here, so only its ending tells the type of the image.
	file, _, _ := strings.Cut(address, "?")
	file, _, _ = strings.Cut(file, "#")
	mimeType := mime.TypeByExtension(strings.ToLower(path.Ext(file)))
	if !strings.HasPrefix(mimeType, "image/") {
		mimeType = "image/jpeg" // a type is required, and most images have this one
	}
	return part{FileData: &fileData{MIMEType: mimeType, FileURI: address}}, true
}

// modelParts returns an earlier reply: its text, then its calls, with the signatures that were kept of them.
// A call whose id was never kept, because another vendor's model made it or an hour has passed,
// goes back without its signature.
func (t *translation) modelParts(m *chat.Message) []part {
	var parts []part
	if text := m.Content.Text(); text != "" {
		parts = append(parts, part{Text: text})
	}
	signed := false     // at least one call has a signature
	first := len(parts) // the index of the first call
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		t.names[c.ID] = c.Name
		p := part{FunctionCall: &functionCall{ID: c.ID, Name: c.Name, Args: provider.ObjectArguments(c.Arguments())}}
		if kept, ok := recall(t.ctx, t.call.Memory, c.ID); ok {
			p.ThoughtSignature, signed = kept.Call, true
			if first == 1 && kept.Text != "" {
				parts[0].ThoughtSignature = kept.Text
			}
		}
		parts = append(parts, p)
	}
	// Of parallel calls Gemini signs only the first, so one signature is enough for all.
	if len(m.ToolCalls) > 0 && !signed && wantsSignatures(t.call.Upstream) {
		parts[first].ThoughtSignature = unsigned
	}
	return parts
}

// unsigned is the signature that Google documents for calls that another vendor's model made, or whose own
// signature was lost. Models from Gemini 3 on refuse calls without any.
var unsigned = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))

// wantsSignatures reports whether a model refuses calls that come back without a signature. All but the first two
// generations do.
func wantsSignatures(model string) bool {
	return strings.HasPrefix(model, "gemini-") && !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2")
}

// result returns the result of a tool as an object, which Gemini requires: an object as it is, anything else as
// its member output. Text that is not JSON becomes a string.
func result(text string) json.RawMessage {
	// An array or a number is valid JSON, but not an object, so it is wrapped as well.
	raw := []byte(text)
	switch valid := json.Valid(raw); {
	case valid && bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")):
		return raw
	case !valid:
		raw = jsonscan.AppendQuoted(nil, text)
	}
	return append(append([]byte(`{"output":`), raw...), '}')
}
