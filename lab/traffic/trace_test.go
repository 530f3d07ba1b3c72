package traffic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,1000,40
2023-11-16 18:15:48.6805900,2000,80
2023-11-16 18:15:49.6805900,3000,120
`

const mooncake = `{"timestamp": 0, "input_length": 1200, "output_length": 50, "hash_ids": [0, 1, 2]}
{"timestamp": 500, "input_length": 1100, "output_length": 60, "hash_ids": [0, 1, 3]}
{"timestamp": 1500, "input_length": 600, "output_length": 70, "hash_ids": [9, 10]}
`

func TestReadTrace(t *testing.T) {
	a, err := ReadTrace(strings.NewReader(azure))
	if err != nil || len(a) != 3 || a[1] != (Arrival{At: 2 * time.Second, Prompt: 2000, Output: 80, Group: -1}) || a.Rate() != 3/4.5 {
		t.Errorf("%v %v", a, err)
	}
	m, err := ReadTrace(strings.NewReader(mooncake))
	if err != nil || len(m) != 3 || m[0].Group != 1 || m[0].Shared != 1024 || m[2].Shared != 0 || m[2].Group < 0 ||
		m[2].At != 1500*time.Millisecond {
		t.Errorf("%v %v", m, err)
	}
	for _, bad := range []string{"", "a,b,c\n", azure[:75], `{"timestamp": "x"}`, "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n"} {
		if _, err := ReadTrace(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is a trace", bad)
		}
	}
}

func TestRecordedTracesAreRead(t *testing.T) {
	for name, want := range map[string]int{"azure_llm_2023_conv.csv": 19366, "azure_llm_2023_code.csv": 8819,
		"mooncake_conversation.jsonl": 12031} {
		f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "traces", name))
		if err != nil {
			t.Skip("SKIPPED: no ../shared/data/traces beside the checkout; recorded traces were not read:", err)
		}
		trace, err := ReadTrace(f)
		f.Close()
		if err != nil || len(trace) < want-1 || len(trace) > want {
			t.Errorf("%s: %d requests, want %d: %v", name, len(trace), want, err)
		}
	}
}
