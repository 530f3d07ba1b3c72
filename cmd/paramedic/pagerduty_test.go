package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/pagerduty"
)

// PagerDuty takes the shipped webhook subscription. It names the events that the bot uses, and the
// bot takes a delivery with the secret of PagerDuty's answer.
func TestPagerDutySubscriptionNamesUsedEvents(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/pagerduty/webhook-subscription.json")
	if err != nil {
		t.Fatal(err)
	}
	server := pagerdutytest.New(pagerdutytest.Options{Token: "u+key"})
	defer server.Close()
	req, err := http.NewRequest(http.MethodPost, server.URL()+"/webhook_subscriptions", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token token=u+key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Subscription struct {
			Events         []string
			DeliveryMethod struct{ Secret string } `json:"delivery_method"`
		} `json:"webhook_subscription"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("PagerDuty answers %s, %v: %v", resp.Status, err, server.Failures())
	}
	for _, event := range pagerdutytest.Subscribable {
		body := []byte(hooktest.PagerBody(event, hooktest.PagerIncident))
		in, err := pagerduty.Decode(body, time.Now(), func(*state.Foreign) string { return "default" })
		if err != nil {
			t.Errorf("%s: %v", event, err)
		}
		if subscribed := slices.Contains(answer.Subscription.Events, event); subscribed != (in != nil) {
			t.Errorf("%s: subscribed %t, used %t", event, subscribed, in != nil)
		}
		secret := answer.Subscription.DeliveryMethod.Secret
		if err := pagerduty.Verify(pagerdutytest.Sign(secret, body, event), body, secret); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}
