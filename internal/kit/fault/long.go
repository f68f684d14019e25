package fault

import "fmt"

// Long is a prompt that its model cannot read as a whole, or not with the reply that is asked for. Programs that talk to
// models recognize it by the words of the dialect that they speak, and shorten the conversation or the reply; so those come
// first, and our advice after them.
type Long struct {
	Tokens int // of the prompt; may be an estimate
	Reply  int // what is asked for beside a prompt that would fit; 0: the prompt alone is too long
	Most   int // what the model takes
	Advice string
}

// ReasonLong is the Reason of a prompt that is too long.
const ReasonLong = "context_length_exceeded"

// NewLong returns the fault of a prompt that is too long, in the words of chat completions. More tokens than most are
// said in any case: an estimate may be too low.
func NewLong(l Long) *Fault {
	f := &Fault{}
	f.TooLong(l)
	return f
}

// TooLong makes f the fault of a prompt that is too long; see NewLong. Details and the cause stay.
func (f *Fault) TooLong(l Long) {
	f.Kind, f.Code, f.Type, f.Param, f.Reason, f.Long = Invalid, 0, "", "messages", ReasonLong, &l
	if l.Reply > 0 {
		f.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, %d in the completion). Please reduce the length of the messages or completion. %s",
			l.Most, l.Tokens+l.Reply, l.Tokens, l.Reply, l.Advice)
		return
	}
	l.Tokens = max(l.Tokens, l.Most+1)
	f.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages. %s", l.Most, l.Tokens, l.Advice)
}
