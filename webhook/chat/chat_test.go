package chat_test

import (
	"testing"
	"time"

	"paramedic/webhook/chat"
	"paramedic/webhook/hooktest"

	"github.com/slack-go/slack"
)

func TestSlackSignatureMatchesSlackGo(t *testing.T) {
	body, now := "a=b", time.Now()
	header := hooktest.SlackHeaders(body, now)
	v, err := slack.NewSecretsVerifier(header, hooktest.SlackSecret)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = v.Write([]byte(body))
	if err := v.Ensure(); err != nil {
		t.Fatal(err)
	}
	if err := chat.VerifySlack(header, []byte(body), hooktest.SlackSecret, now); err != nil {
		t.Error(err)
	}
}

func TestRepliesGoToSlackOnly(t *testing.T) {
	s := chat.New(chat.Config{APIURL: "http://127.0.0.1:8090/api/"}, nil, nil, 0)
	for _, to := range []string{"http://hooks.slack.com/x", "https://hooks.slack.com.evil.example/x", "https://u@hooks.slack.com/",
		"http://169.254.169.254/", "", "::"} {
		if s.ReplyAllowed(to) {
			t.Errorf("a reply may go to %q", to)
		}
	}
	if !s.ReplyAllowed("https://hooks.slack.com/actions/T/1/x") {
		t.Error("Slack gets no replies")
	}
}

func FuzzDecodeSlackClick(f *testing.F) {
	f.Add(`{"type":"block_actions","user":{"id":"U1"},"actions":[{"action_id":"paramedic.ack","value":"INC-1"}]}`)
	f.Add(`{"type":"view_submission"}`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := chat.DecodeClick(payload)
		hooktest.Refusal(t, err)
		if c != nil && (len(c.Actions) != 1 || c.User.ID == "") {
			t.Fatalf("%+v", c)
		}
	})
}
