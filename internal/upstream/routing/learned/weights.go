package learned

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"sync"
)

// Model is a set of weights. It does not change.
type Model struct {
	weights     [Places][Forms]int8
	scale       [Forms]float32
	counts      [Forms][Counts]float32
	calibration [Forms]calibration
	known       [vocabulary / 64]uint64
}

// calibration turns the scores of a form into chances: logistic(start + slope·score).
type calibration struct{ start, slope float32 }

// The format of a file of weights, little endian: the magic word, the version, scale, calibration, counts,
// weights and known words as in Model, and the CRC-32 of all that. A weight takes four bits, from -largest to largest:
// a score adds up so many of them that what is rounded off cancels out.
const (
	magic   = "sluice-router\x00"
	version = 1
	largest = 7
	// fileSize is the size of every file of this version.
	fileSize = len(magic) + 2 + 4*int(Forms) + 8*int(Forms) + 4*int(Forms)*Counts + Places*int(Forms)/2 + vocabulary/8 + 4
)

//go:embed weights.bin
var embedded string

// builtin reads the embedded weights once, when they are first needed.
var builtin = sync.OnceValues(func() (*Model, error) { return Parse(embedded) })

// Builtin returns the weights that the program was built with.
func Builtin() (*Model, error) { return builtin() }

// Load reads weights from a file.
func Load(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One byte more than a good file has, so that nobody makes us read a large one.
	data, err := io.ReadAll(io.LimitReader(f, int64(fileSize)+1))
	if err != nil {
		return nil, err
	}
	return Parse(string(data))
}

// Parse reads the weights in a file's content.
func Parse(data string) (*Model, error) {
	const head = len(magic) + 2
	if len(data) < head || data[:len(magic)] != magic {
		return nil, errors.New("this is no file of router weights")
	}
	if v := int(data[len(magic)]) | int(data[len(magic)+1])<<8; v != version {
		return nil, fmt.Errorf("the router weights have version %d, and this program reads version %d", v, version)
	}
	if len(data) != fileSize {
		return nil, fmt.Errorf("the router weights have %d bytes instead of %d", len(data), fileSize)
	}
	body, sum := data[:fileSize-4], binary.LittleEndian.Uint32([]byte(data[fileSize-4:]))
	if crc32.ChecksumIEEE([]byte(body)) != sum {
		return nil, errors.New("the router weights are damaged: their checksum is wrong")
	}
	m := new(Model)
	rest := body[head:]
	float := func() float32 {
		v := math.Float32frombits(binary.LittleEndian.Uint32([]byte(rest[:4])))
		rest = rest[4:]
		return v
	}
	for f := range m.scale {
		m.scale[f] = float()
	}
	for f := range m.calibration {
		m.calibration[f] = calibration{float(), float()}
	}
	for f := range m.counts {
		for i := range m.counts[f] {
			m.counts[f][i] = float()
		}
	}
	for p := range m.weights {
		for f := range m.weights[p] {
			m.weights[p][f] = int8(rest[f/2]>>(f%2*4)&15) - largest
		}
		rest = rest[Forms/2:]
	}
	for i := range m.known {
		m.known[i] = binary.LittleEndian.Uint64([]byte(rest[:8]))
		rest = rest[8:]
	}
	return m, nil
}

// Append appends the file of the weights to b.
func (m *Model) Append(b []byte) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint16(append(b, magic...), version)
	float := func(v float32) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v)) }
	for _, v := range m.scale {
		float(v)
	}
	for _, c := range m.calibration {
		float(c.start)
		float(c.slope)
	}
	for f := range m.counts {
		for _, v := range m.counts[f] {
			float(v)
		}
	}
	for p := range m.weights {
		for f := 0; f < len(m.weights[p]); f += 2 {
			b = append(b, byte(m.weights[p][f]+largest)|byte(m.weights[p][f+1]+largest)<<4)
		}
	}
	for _, v := range m.known {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
}
