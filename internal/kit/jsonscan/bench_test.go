package jsonscan

import (
	"strings"
	"testing"
)

func BenchmarkString(b *testing.B) {
	for name, text := range map[string]string{
		"picture": strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", 1<<15),
		"prose":   strings.Repeat(`The river runs slowly over the stones, and nobody looks at it.\n`, 1<<13),
		"code":    strings.Repeat(`\tif err != nil {\n\t\treturn \"no\", err\n\t}\n`, 1<<13),
		"mixed":   strings.Repeat(`The gateway said: \"hand it on\", and it did.\n\tThen it waited for the next piece — päckchenweise. `, 1<<12),
		"chinese": strings.Repeat("河水缓缓流过石头，没有人看它。", 1<<13),
		"accents": strings.Repeat("Über den Fluss führt eine schmale Brücke. ", 1<<13),
		"short":   "user",
	} {
		b.Run(name, func(b *testing.B) {
			doc := []byte(`"` + text + `"`)
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, _, p := String(doc, 0); p != OK {
					b.Fatal(p)
				}
			}
		})
	}
}
