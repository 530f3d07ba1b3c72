package chat

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"paramedic/webhook/httpio"
)

func TestSlackSignatureIsSlackGos(t *testing.T) {
	const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	body, now := "a=b", time.Now()
	ts := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(signingSecret))
	fmt.Fprintf(mac, "v0:%s:%s", ts, body)
	header := http.Header{"X-Slack-Request-Timestamp": {ts}, "X-Slack-Signature": {"v0=" + hex.EncodeToString(mac.Sum(nil))}}
	v, err := slack.NewSecretsVerifier(header, signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = v.Write([]byte(body))
	if err := v.Ensure(); err != nil {
		t.Fatal(err)
	}
	if err := verifySlack(header, []byte(body), signingSecret, now); err != nil {
		t.Error(err)
	}
}

func TestRepliesGoToSlackOnly(t *testing.T) {
	s := New(Config{APIURL: "http://127.0.0.1:8090/api/"}, nil, nil, 0)
	for _, to := range []string{"http://hooks.slack.com/x", "https://hooks.slack.com.evil.example/x", "https://u@hooks.slack.com/", "http://169.254.169.254/", "", "::"} {
		if s.replyAllowed(to) {
			t.Errorf("a reply may go to %q", to)
		}
	}
	if !s.replyAllowed("https://hooks.slack.com/actions/T/1/x") {
		t.Error("Slack gets no replies")
	}
}

// refusal checks that a decoder's error is a clear 4xx.
func refusal(t *testing.T, err error) {
	var a *httpio.Error
	if err != nil && (!errors.As(err, &a) || a.Code < 400 || a.Code >= 500 || a.Text == "") {
		t.Fatalf("not a clear refusal: %v", err)
	}
}

func FuzzDecodeSlackClick(f *testing.F) {
	f.Add(`{"type":"block_actions","user":{"id":"U1"},"actions":[{"action_id":"paramedic.ack","value":"INC-1"}]}`)
	f.Add(`{"type":"view_submission"}`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := decodeSlackClick(payload)
		refusal(t, err)
		if c != nil && (len(c.Actions) != 1 || c.User.ID == "") {
			t.Fatalf("%+v", c)
		}
	})
}
