// Command genvocab writes the o200k_base vocabulary in the form that package tokens reads.
//
// It takes the vocabulary from github.com/tiktoken-go/tokenizer, which has it as a Go map of 200,000
// entries: 6 MB in a binary, and the slowest package of all to compile. Here every token is written as the
// two earlier tokens that it is made of, which takes 0.74 MB compressed.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"

	"github.com/tiktoken-go/tokenizer/codec"
)

// singles is the number of tokens that are one byte. They come first.
const singles = 256

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: genvocab file")
		os.Exit(2)
	}
	text, err := vocabulary()
	if err == nil {
		err = os.WriteFile(os.Args[1], compress(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "genvocab:", err)
		os.Exit(1)
	}
}

// compress compresses the file.
func compress(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a level that there is
	_, _ = z.Write(text)                                  // a bytes.Buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// vocabulary returns the bytes of the first 256 tokens, and then the two numbers of the tokens that each further one
// consists of: the lowest bytes of all first numbers, their next and their highest bytes, and likewise the second
// numbers. In this order they compress best.
func vocabulary() ([]byte, error) {
	source := codec.NewO200kBase()
	var out []byte
	var planes [6][]byte
	numbers := map[string]uint64{}
	for n := uint64(0); ; n++ {
		token, err := source.Decode([]uint{uint(n)})
		if err != nil { // one past the last token
			return append(out, bytes.Join(planes[:], nil)...), nil
		}
		if n < singles {
			if len(token) != 1 {
				return nil, fmt.Errorf("token %d is %q, want one byte", n, token)
			}
			out = append(out, token...)
		} else {
			first, second, ok := halves(token, numbers)
			if !ok {
				return nil, fmt.Errorf("token %d, %q, is not made of two earlier tokens", n, token)
			}
			for i := range 3 {
				planes[i] = append(planes[i], byte(first>>(8*i)))
				planes[3+i] = append(planes[3+i], byte(second>>(8*i)))
			}
		}
		numbers[token] = n
	}
}

// halves finds two tokens that make up the given one. Which of several pairs it takes does not matter.
func halves(token string, numbers map[string]uint64) (first, second uint64, ok bool) {
	for i := 1; i < len(token); i++ {
		first, ok1 := numbers[token[:i]]
		second, ok2 := numbers[token[i:]]
		if ok1 && ok2 {
			return first, second, true
		}
	}
	return 0, 0, false
}
