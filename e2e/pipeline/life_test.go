package pipeline

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
)

func TestChangedConfigurationIsAppliedOrRefused(t *testing.T) {
	t.Parallel()
	chats, b := newChats(t), bot.New(t)
	config := configure(b, chats, nil)
	b.Start()
	accepted := func(token string) error {
		status, answer := deliver(t, b, []byte("{}"), map[string]string{"Authorization": "Bearer " + token})
		if status == http.StatusUnauthorized {
			return fmt.Errorf("%d %s", status, answer)
		}
		return nil // a 400: the token was accepted
	}
	if err := accepted(intakeToken); err != nil {
		t.Fatal(err)
	}

	// A valid configuration is applied without a gap in which an alert would be refused.
	next := maps.Clone(config)
	next["auth"] = map[string]any{"alertmanager": map[string]any{"bearer_token_file": b.Secret("intake.2", "another-word")}}
	next["triage"] = map[string]any{"settle": "2s", "resolve_hold": "3s"}
	b.Configure(next)
	bot.Eventually(t, soon, "the new token is accepted", func() error { return accepted("another-word") })
	if accepted(intakeToken) == nil {
		t.Error("the old token is still accepted")
	}

	// An invalid configuration is refused with every problem and its line, and the running one
	// stays.
	b.ConfigureRaw([]byte("listen: " + strings.TrimPrefix(b.URL(), "http://") + "\nsettle: 3s\ntriage:\n  settle: soonish\nremediate:\n " +
		" mode: yolo\nnotify:\n  slack: {api_url: 'ftp://slack'}\n"))
	bot.Eventually(t, soon, "the refusal is in the log", func() error {
		out := b.Output()
		for _, want := range []string{"keeps the old one", "paramedic.yaml:2: ", "paramedic.yaml:4: ", "paramedic.yaml:6: ", "paramedic.yaml:8: ",
			"settle", "soonish", "yolo"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("the log has no %q", want)
			}
		}
		return nil
	})
	if err := accepted("another-word"); err != nil {
		t.Errorf("the old configuration did not stay: %v", err)
	}
	if err := b.Ready(); err != nil {
		t.Error(err)
	}

	// After its correction it is applied again.
	next["auth"] = config["auth"]
	b.Configure(next)
	bot.Eventually(t, soon, "the first token is accepted again", func() error { return accepted(intakeToken) })
	if n := strings.Count(b.Output(), "configuration applied"); n != 2 {
		t.Errorf("%d configurations were applied, want 2", n)
	}
	chats.clean(t)
}

func TestRefusesToListenBeyondLoopbackWithoutAuth(t *testing.T) {
	t.Parallel()
	b := bot.New(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(b.URL(), "http://"))
	b.Configure(map[string]any{"listen": "0.0.0.0:" + port})
	b.Launch()
	if code := b.Wait(soon); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, key := range []string{"auth.alertmanager.bearer_token_file", "auth.api.tokens_file", "paramedic.yaml:"} {
		if !strings.Contains(b.Output(), key) {
			t.Errorf("the output has no %s", key)
		}
	}
	if _, err := os.Stat(filepath.Join(b.Dir(), "data")); err == nil {
		t.Error("it made a state directory first")
	}
}

func TestSIGTERMStopsBusyBotInTime(t *testing.T) {
	t.Parallel()
	chats, b := newChats(t), bot.New(t)
	configure(b, chats, nil)
	b.Start()

	// A client that keeps reading the event stream.
	stream, err := http.Get(b.URL() + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	// A payload without its second half.
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /webhook/alertmanager HTTP/1.1\r\nHost: bot\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: 500\r\n\r\n{\"version\":", intakeToken)
	// Payloads as fast as the bot accepts them.
	storm := newStorms(newRandom(7), time.Now().UTC())[0]
	sent, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		once := false
		for {
			for _, p := range storm.firing {
				status, err := attempt(t.Context(), b.URL(), text(t, p))
				if err != nil {
					return // the bot has ended
				}
				if status == http.StatusOK && !once {
					once = true
					sent <- nil
				}
				if status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Errorf("answered %d while it ends", status)
				}
			}
		}
	}()
	<-sent
	code, took := b.Stop()
	if code != 0 || took > 10*time.Second {
		t.Errorf("it ended with %d after %s, want 0 within 10s", code, took)
	}
	<-ended
	if _, err := io.Copy(io.Discard, stream.Body); err == nil && took > 8*time.Second {
		t.Errorf("the stream held it")
	}
	t.Logf("ended after %s", took)

	// It still has the alerts that it accepted.
	b.Start()
	bot.Eventually(t, soon, "the incident continues", func() error { return chats.notified(own(b.MustIncidents()), "triggered") })
	if list := own(b.MustIncidents()); len(list) != 1 {
		t.Errorf("%d incidents", len(list))
	}
	chats.clean(t)
}

func TestCheckReportsProblems(t *testing.T) {
	t.Parallel()
	b := bot.New(t)
	configure(b, newChats(t), nil)
	if out, errs, code := bot.Run(t, b.Dir(), "check", "--config", b.ConfigPath()); code != 0 || !strings.Contains(out, "is valid") {
		t.Errorf("a valid configuration: exit %d\n%s%s", code, out, errs)
	}
	if out, errs, code := bot.Run(t, b.Dir(), "check"); code != 0 {
		t.Errorf("no configuration: exit %d\n%s%s", code, out, errs)
	}
	b.ConfigureRaw([]byte("listen: 0.0.0.0:8080\ntriage: {settle: soonish}\nclusters:\n- {name: a}\n- {name: a}\n"))
	out, errs, code := bot.Run(t, b.Dir(), "check", "--config", b.ConfigPath())
	for _, want := range []string{"paramedic.yaml:1: ", "paramedic.yaml:2: ", "paramedic.yaml:5: ", "bearer_token_file", "soonish",
		"is the name of another cluster"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if code != 2 {
		t.Errorf("exit %d, want 2\n%s%s", code, out, errs)
	}
	if _, errs, code := bot.Run(t, b.Dir(), "check", "--config", filepath.Join(b.Dir(), "none.yaml")); code != 1 ||
		!strings.Contains(errs, "none.yaml") {
		t.Errorf("a file that is not there: exit %d\n%s", code, errs)
	}
}
