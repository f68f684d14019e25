package fault

import "fmt"

// Long is a prompt that its model cannot read as a whole. Programs that talk to models recognize it by the words of the
// dialect that they speak, and shorten the conversation; so those come first, and our advice after them.
type Long struct {
	Tokens int // of the prompt; may be an estimate
	Most   int // what the model reads
	Advice string
}

// ReasonLong is the Reason of a prompt that is too long.
const ReasonLong = "context_length_exceeded"

// NewLong returns the fault of a prompt that is too long, in the words of chat completions. More tokens than most are
// said in any case: an estimate may be too low.
func NewLong(tokens, most int, advice string) *Fault {
	f := &Fault{Kind: Invalid}
	f.TooLong(tokens, most, advice)
	return f
}

// TooLong makes f the fault of a prompt that is too long; see NewLong. The cause stays.
func (f *Fault) TooLong(tokens, most int, advice string) {
	l := &Long{Tokens: max(tokens, most+1), Most: most, Advice: advice}
	f.Kind, f.Code, f.Type, f.Param, f.Reason, f.Long = Invalid, 0, "", "messages", ReasonLong, l
	f.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages. %s", l.Most, l.Tokens, advice)
}
