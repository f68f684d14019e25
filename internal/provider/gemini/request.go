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

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

// request is the body of generateContent.
type request struct {
	Contents          []content   `json:"contents"`
	SystemInstruction *content    `json:"systemInstruction,omitempty"`
	Tools             []toolbox   `json:"tools,omitempty"`
	ToolConfig        *toolConfig `json:"toolConfig,omitempty"`
	GenerationConfig  generation  `json:"generationConfig,omitzero"`
}

// content is one turn: of the user, or of the model. Tool results are the user's.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

const (
	roleUser  = "user"
	roleModel = "model"
)

// part is a piece of a turn; one of its members is set, and a signature may stand beside it.
type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

type fileData struct {
	MIMEType string `json:"mimeType"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

// translation is a request on its way into the other dialect.
type translation struct {
	ctx   context.Context //nolint:containedctx // one call's, for what is recalled of earlier turns
	call  *provider.Call
	out   request
	names map[string]string // of called functions, by the call's id
}

func translate(ctx context.Context, call *provider.Call) (*request, error) {
	if err := call.Plain(); err != nil {
		return nil, err
	}
	t := &translation{ctx: ctx, call: call, names: map[string]string{}}
	for i := range call.Request.Messages {
		if err := t.message(i, &call.Request.Messages[i]); err != nil {
			return nil, err
		}
	}
	if len(t.out.Contents) == 0 && t.out.SystemInstruction != nil {
		// Instructions alone are a prompt everywhere else; here a turn of the user is required.
		t.out.Contents = []content{{Role: roleUser, Parts: t.out.SystemInstruction.Parts}}
		t.out.SystemInstruction = nil
	}
	if err := t.configure(); err != nil {
		return nil, err
	}
	call.Drop("user")
	call.DropUnread()
	return &t.out, nil
}

func (t *translation) message(i int, m *chat.Message) error {
	if m.Name != "" {
		t.call.Omit("messages[].name")
	}
	switch m.Role {
	case chat.RoleSystem:
		if text := m.Content.Text(); text != "" {
			if t.out.SystemInstruction == nil {
				t.out.SystemInstruction = &content{}
			}
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
		t.add(roleUser, []part{{FunctionResponse: &functionResponse{
			ID: m.ToolCallID, Name: t.names[m.ToolCallID], Response: result(m.Content.Text()),
		}}})
	}
	return nil
}

// add appends parts to the turn of their role. Results of tools make a turn of their own: there must
// be as many of them in it as there were calls in the one before.
func (t *translation) add(role string, parts []part) {
	if len(parts) == 0 {
		return // an empty text is no part over there
	}
	if n := len(t.out.Contents); n > 0 {
		last := &t.out.Contents[n-1]
		if last.Role == role && (last.Parts[0].FunctionResponse == nil) == (parts[0].FunctionResponse == nil) {
			last.Parts = append(last.Parts, parts...)
			return
		}
	}
	t.out.Contents = append(t.out.Contents, content{Role: role, Parts: parts})
}

func (t *translation) userParts(i int, m *chat.Message) ([]part, error) {
	var parts []part
	for j, p := range m.Content.Parts() {
		if !p.IsImage() {
			if text := p.Text(); text != "" {
				parts = append(parts, part{Text: text})
			}
			continue
		}
		if p.Detail != "" && p.Detail != "auto" {
			t.call.Omit("image_url.detail")
		}
		image, ok := imagePart(p.ImageURL)
		if !ok || image.FileData != nil && strings.HasPrefix(t.call.Upstream, "gemini-2.0") {
			return nil, fault.New(fault.Invalid, "This model cannot fetch the image. Send it as a data: URL, or, for most models, under an https:// address.").
				At(fmt.Sprintf("messages[%d].content[%d].image_url.url", i, j))
		}
		parts = append(parts, image)
	}
	return parts, nil
}

// imagePart is an image; false where its address is none that the upstream can fetch.
func imagePart(address string) (part, bool) {
	if head, data, ok := strings.Cut(address, ","); ok && strings.EqualFold(head[:min(len(head), len("data:"))], "data:") {
		mimeType, _, _ := strings.Cut(head[len("data:"):], ";")
		return part{InlineData: &inlineData{MIMEType: strings.ToLower(mimeType), Data: data}}, true
	}
	const scheme = "https://"
	if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
		return part{}, false
	}
	file, _, _ := strings.Cut(address, "?")
	file, _, _ = strings.Cut(file, "#")
	mimeType := mime.TypeByExtension(strings.ToLower(path.Ext(file)))
	if !strings.HasPrefix(mimeType, "image/") {
		mimeType = "image/jpeg" // a type is required; most are
	}
	return part{FileData: &fileData{MIMEType: mimeType, FileURI: address}}, true
}

// modelParts is an earlier reply, with the signatures that were kept of it.
func (t *translation) modelParts(m *chat.Message) []part {
	var parts []part
	if text := m.Content.Text(); text != "" {
		parts = append(parts, part{Text: text})
	}
	signed := false
	first := len(parts)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		t.names[c.ID] = c.Name
		p := part{FunctionCall: &functionCall{ID: c.ID, Name: c.Name, Args: arguments(c.Arguments)}}
		if kept, ok := recall(t.ctx, t.call.Memory, c.ID); ok {
			p.ThoughtSignature, signed = kept.Call, true
			if first == 1 && kept.Text != "" {
				parts[0].ThoughtSignature = kept.Text
			}
		}
		parts = append(parts, p)
	}
	if len(m.ToolCalls) > 0 && !signed && wantsSignatures(t.call.Upstream) {
		parts[first].ThoughtSignature = unsigned
	}
	return parts
}

// unsigned is the signature of calls that were not made by this vendor, or whose own is gone. Models
// from Gemini 3 on refuse calls with none, and take this one in its place.
var unsigned = base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))

// wantsSignatures reports whether a model refuses calls that come back without a signature: all but
// the first two generations do.
func wantsSignatures(model string) bool {
	return strings.HasPrefix(model, "gemini-") && !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2")
}

// arguments are those of a call as the object that they must be. What an earlier model wrote wrong is
// handed on as a text.
func arguments(text string) json.RawMessage {
	raw := []byte(text)
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage(`{}`)
	case isObject(raw):
		return raw
	}
	return object("arguments", quote(text))
}

// result is a tool's as the object that it must be.
func result(text string) json.RawMessage {
	raw := []byte(text)
	switch {
	case isObject(raw):
		return raw
	case json.Valid(raw):
		return object("output", raw)
	}
	return object("output", quote(text))
}

func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && json.Valid(raw)
}

func object(key string, value []byte) json.RawMessage {
	return append(append([]byte(`{"`+key+`":`), value...), '}')
}

func quote(text string) []byte { return jsonscan.AppendQuoted(nil, text) }
