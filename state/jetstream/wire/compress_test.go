package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"

	"paramedic/state"
)

// FuzzDecompress feeds damaged values to Decompress, and checks that Compress and Plain are undone.
func FuzzDecompress(f *testing.F) {
	for line := range bytes.Lines(samples) {
		f.Add(line)
		f.Add(Compress(line))
	}
	f.Add([]byte{})
	f.Add([]byte{Compressed})
	f.Add([]byte{Compressed, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		if got, err := Decompress(value); err == nil && len(got) > maxDecompressed {
			t.Errorf("%d bytes", len(got))
		}
		for _, stored := range [][]byte{Compress(value), Plain(value)} {
			if got, err := Decompress(stored); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%q became %q: %v", value, got, err)
			}
		}
	})
}

// BenchmarkCompress compresses values that the samples resemble more and less. size-% is the
// compressed size in percent of the plain one.
func BenchmarkCompress(b *testing.B) {
	noise := rand.NewChaCha8([32]byte{1})
	word := func() string { return strconv.FormatUint(noise.Uint64(), 36) }
	alert := func(labels int, text string) []byte {
		a := state.Alert{Fingerprint: state.Fingerprint(word()), Status: state.Firing, Labels: map[string]string{"alertname": word()},
			Annotations: map[string]string{"description": text}, GeneratorURL: "https://" + word() + "/graph?g0.expr=" + word()}
		for range labels {
			a.Labels[word()] = word()
		}
		raw, err := json.Marshal(state.AlertRecord{Alert: a})
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	like := bytes.Split(samples, []byte{'\n'})
	for name, value := range map[string][]byte{
		"a-sample-with-other-numbers": otherNumbers(noise, like[len(like)-2]),
		"unknown-labels":              alert(12, "Der Dienst "+word()+" antwortet nicht mehr, seit "+word()+" neu verteilt wurde."),
		"random-text":                 alert(1, randomText(noise, 900)),
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(Compress(value))
			}
			b.ReportMetric(float64(len(value)), "bytes")
			b.ReportMetric(100*float64(size)/float64(len(value)), "size-%")
		})
	}
}

// BenchmarkDecompress decompresses a megabyte of records, as a link has them.
func BenchmarkDecompress(b *testing.B) {
	var value []byte
	noise := rand.NewChaCha8([32]byte{1})
	lines := bytes.Split(samples, []byte{'\n'})
	for i := 0; len(value) < 1<<20; i++ {
		value = append(value, otherNumbers(noise, lines[i%len(lines)])...)
	}
	stored := Compress(value)
	for name, buffer := range map[string][]byte{"new-memory": nil, "buffer": make([]byte, len(value))} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				if _, err := DecompressTo(buffer, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// otherNumbers returns the text with random digits.
func otherNumbers(noise *rand.ChaCha8, text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0' + rune(noise.Uint64()%10)
		}
		return r
	}, text)
}

func randomText(noise *rand.ChaCha8, n int) string {
	raw := make([]byte, n)
	_, _ = noise.Read(raw) // it never fails
	return base64.StdEncoding.EncodeToString(raw)
}
