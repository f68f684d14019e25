package chat_test

import (
	"fmt"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// Parse decodes a request and checks it. Fields that were left out have their defaults.
func ExampleParse() {
	req, err := chat.Parse([]byte(`{"model": "sandbox/small", "messages": [{"role": "user", "content": "Hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Model, req.N, req.Messages[0].Content.Text())
	// Output: sandbox/small 1 Hi
}

// A wrong request is a fault that names the field.
func ExampleParse_wrong() {
	_, err := chat.Parse([]byte(`{"model": "m", "messages": [{"role": "user", "content": 7}]}`))
	f := fault.From(err)
	fmt.Println(f.Kind.Status(), f.Param)
	// Output: 400 messages[0].content
}

// AppendUpstream changes only what the patch names. Every other byte is the caller's.
func ExampleRequest_AppendUpstream() {
	req, err := chat.Parse([]byte(`{"model":"lab/small","seed":7,  "messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", req.AppendUpstream(nil, chat.Patch{Model: "small-2", Drop: []string{"seed"}}))
	// Output: {"model":"small-2",  "messages":[{"role":"user","content":"Hi"}]}
}
