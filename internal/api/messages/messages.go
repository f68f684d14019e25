// Package messages is the door that speaks Anthropic's Messages API: it reads its requests and writes its replies.
//
// Parse turns a body into an equal chat.Request, so everything behind the door knows nothing of this dialect. No JSON is
// written for that. A Writer turns the events of the reply into the events or the one message of the
// dialect. What a chat completion cannot say stays in the caller's own body, which an upstream of the same dialect gets;
// its events come back to the caller as they are. See chat.Original and provider.Event.Native.
//
// How the words of the dialect translate:
//
//	system                    a system message, without what Claude Code says of itself there
//	role system               a system message, where it stands
//	tool_use                  tool_calls, with the input as text
//	tool_result               a tool message, in front of what the user says; its images go to the user's message
//	thinking                  reasoning_content, for the model that wrote it; see signature.go
//	image, document           image_url and file parts; a document that is text becomes text
//	tools, tool_choice        tools, tool_choice and parallel_tool_calls
//	mcp_servers, mcp_toolset  tools of the type mcp
//	stop_sequences            stop
//	thinking, output_config   reasoning_effort and response_format
//	metadata.user_id          user
//
// The files: parse.go reads the fields of a request, content.go the blocks of its messages, system.go what the system says,
// tools.go its tools; paths.go finds the field of the dialect that a later refusal is about; write.go writes replies,
// native.go those of an upstream of the same dialect; errors.go has the error object. HTTP is the business of httpapi.
package messages

import "sluice/internal/prompt/chat"

// Dialect is the name of the dialect in chat.Original.
const Dialect = chat.DialectMessages

// Request is a request in Anthropic's dialect, read and checked.
type Request struct {
	// Chat is the same request as a chat completion.
	Chat *chat.Request
	// UserID is metadata.user_id as it was sent, which may refer to the body; empty: there is none.
	UserID string

	origins []origin     // where the messages of Chat come from
	tools   []toolOrigin // where the tools of Chat come from
	unread  []string     // what a chat completion cannot say and does without
	// byEffort says that the effort of Chat is that of output_config, and not what thinking became.
	byEffort bool
	newer    refusal           // what versions since 2026-10-21 refuse
	threads  bool              // the upstream holds the conversation, and knows it by its own ids
	names    map[string]string // the caller's names of tools by the shorter ones in Chat; nil if none is shorter
}

// InputTokens returns about how many tokens the prompt has, at no cost. A stream begins with it; the upstream's figure
// comes with the end.
func (r *Request) InputTokens() int {
	const perMessage, perImage = 4, 1024
	return r.Chat.PromptBytes()/4 + perMessage*len(r.Chat.Messages) + perImage*r.Chat.Attachments()
}
