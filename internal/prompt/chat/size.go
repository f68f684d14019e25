package chat

// size is how much of a request reaches the model, counted while it is parsed. Counting then is free;
// counting later would mean reading all texts again.
type size struct {
	bytes  int // of texts, names, ids and arguments, unescaped, and of the JSON of tools and schemas
	images int
	files  int // parts that are files or sound
	calls  int // tool calls of earlier replies
}

// What a prompt holds besides its texts, in tokens. Every chat template wraps messages, calls and tools
// in a few special tokens. These figures are higher than those of all templates we know, because
// TokenBound must not be too low: a prompt whose bound fits the model is not counted any further.
const (
	tokensPerRequest = 16
	tokensPerMessage = 8
	tokensPerCall    = 16
	tokensPerTool    = 32
	tokensPerImage   = 1024 // also for a file or a sound
)

// PromptBytes returns the number of bytes, as UTF-8, of everything in the request that reaches the
// model as text: contents, names, tool call ids and arguments, tool definitions, and the schema of
// the reply. It does not include images, or tools that an MCP server has yet to list.
func (r *Request) PromptBytes() int { return r.size.bytes }

// Images returns the number of images in the messages. TokenBound counts each as tokensPerImage.
func (r *Request) Images() int { return r.size.images }

// Files returns the number of files and sounds in the messages.
func (r *Request) Files() int { return r.size.files }

// Attachments returns the number of images, files and sounds in the messages: all that reaches the
// model and is no text.
func (r *Request) Attachments() int { return r.size.images + r.size.files }

// TokenBound returns a number of tokens that the prompt does not exceed, whatever the tokenizer: a
// token stands for at least one byte of text, and the rest is counted generously. Real prompts have
// about a quarter of it. An image or a file has a fixed cost, because vendors do not count its bytes.
func (r *Request) TokenBound() int {
	return r.size.bytes + tokensPerRequest +
		tokensPerMessage*len(r.Messages) +
		tokensPerCall*r.size.calls +
		tokensPerTool*len(r.Tools) +
		tokensPerImage*r.Attachments()
}

// What a message, a part and a tool call take when they are decoded, about, in bytes.
const (
	messageWeight = 152
	partWeight    = 96
	callWeight    = 64
)

// Weight returns about how many bytes the request takes beside its body.
func (r *Request) Weight() (n int64) {
	for i := range r.Messages {
		m := &r.Messages[i]
		n += int64(messageWeight + len(m.Content.parts)*partWeight + len(m.ToolCalls)*callWeight)
	}
	return n
}
