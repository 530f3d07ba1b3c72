package service

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state/jetstream"
)

// A lockedBuffer is a log that a test reads while the bot writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// bomb returns zeros that take a thousandth of their size.
func bomb(t *testing.T, size int64) string {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := io.CopyN(z, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A payload that is made to hurt gets its status, costs bounded memory, and is named in the log.
// The bot takes the next good one.
func TestHostilePayloadsAreRefused(t *testing.T) {
	var log lockedBuffer
	base, bot := startBotOn(t, jetstream.Config{Dir: t.TempDir()}, slog.New(slog.NewTextHandler(&log, nil)))
	labels := make([]string, 10_000)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"l%d":"v"`, i)
	}
	const most = 128 << 20 // bytes that a request may allocate, of a body of at most 8 MiB
	for name, c := range map[string]struct {
		body   string
		length int64 // -1: not told
		header string
		code   int
		logged string
	}{
		"10 MB":               {strings.Repeat(" ", 10<<20), 10 << 20, "", 413, "larger than 8388608 bytes"},
		"10 MB in chunks":     {strings.Repeat(" ", 10<<20), -1, "", 413, "larger than 8388608 bytes"},
		"a gzip bomb of 1 GB": {bomb(t, 256<<20), 0, "gzip", 400, "without Content-Encoding"},
		"10,000 labels":       {strings.Replace(oneAlert, `"severity":"warning"`, strings.Join(labels, ","), 1), 0, "", 200, "10001 labels"},
		"deep objects":        {strings.Repeat(`{"alerts":[`, 500_000), 0, "", 400, "not an Alertmanager webhook payload"},
		"deep annotations": {strings.Replace(oneAlert, `"annotations":{}`, `"annotations":`+strings.Repeat("[", 1<<20), 1),
			0, "", 400, "not an Alert"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/webhook/alertmanager", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if c.header != "" {
				req.Header.Set("Content-Encoding", c.header)
			}
			if c.length != 0 {
				req.ContentLength = c.length
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			runtime.ReadMemStats(&after)
			if resp.StatusCode != c.code || after.TotalAlloc-before.TotalAlloc > most {
				t.Errorf("answered %d, want %d; it allocated %d MiB", resp.StatusCode, c.code, (after.TotalAlloc-before.TotalAlloc)>>20)
			}
		})
		eventually(t, "the log names "+name, func() bool {
			return strings.Contains(log.String(), c.logged) || strings.Contains(log.String(), fmt.Sprintf("status=%d sender=127.0.0.1", c.code))
		})
	}
	if code, err := sendGood(base); err != nil || code != http.StatusOK {
		t.Errorf("a good payload is answered with %d, %v", code, err)
	}
	awaitAlerts(t, bot, 1)
}

func sendGood(base string) (int, error) {
	resp, err := http.Post(base+"/webhook/alertmanager", "application/json", strings.NewReader(oneAlert))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Senders that trickle their bodies hold up no good payload, whether they send little or begin
// with so much that they take every slot.
func TestTricklingSendersHoldUpNone(t *testing.T) {
	var log lockedBuffer
	base, _ := startBotOn(t, jetstream.Config{Dir: t.TempDir()}, slog.New(slog.NewTextHandler(&log, nil)))
	done := make(chan struct{})
	var senders sync.WaitGroup
	for i := range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /webhook/alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 8000000\r\n\r\n{%s", strings.Repeat(" ", i%3/2*70_000)); err != nil {
			t.Fatal(err)
		}
		senders.Go(func() {
			defer conn.Close()
			for {
				select {
				case <-done:
					return
				case <-time.After(100 * time.Millisecond):
				}
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
			}
		})
	}
	for range 3 {
		eventually(t, "a good payload is taken, as Alertmanager retries after 503", func() bool {
			code, err := sendGood(base)
			return err == nil && code == http.StatusOK
		})
	}
	close(done)
	senders.Wait()
}
