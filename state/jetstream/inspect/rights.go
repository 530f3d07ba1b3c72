package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// A right is a subject that the bot must be allowed to publish to, and a message to it that has no
// effect.
type right struct{ subject, example, body string }

// inboxRight is the right to get answers.
const inboxRight = "subscribe to _INBOX.>"

// rights returns what a bot publishes, as deploy/nats allows it.
func (i *inspection) rights() []right {
	out := []right{{subject: "paramedic.in.*", example: "paramedic.in.0"}, {subject: "paramedic.st.>"}, {subject: "paramedic.tl.>"},
		{subject: "paramedic.pos.*"}, {subject: "paramedic.draft.>"}, {subject: "paramedic.probe.*"}, {subject: "paramedic.lease.*"},
		// A purge of one subject, which no message ever has.
		{subject: "$JS.API.STREAM.PURGE." + i.st.Name, body: `{"filter":"paramedic.draft.check.never"}`}}
	for _, stream := range []string{i.in.Name, i.st.Name} {
		for _, r := range []string{"STREAM.INFO.%s", "STREAM.CREATE.%s", "STREAM.UPDATE.%s", "STREAM.MSG.GET.%s", "CONSUMER.CREATE.%s.>",
			"CONSUMER.MSG.NEXT.%s.*", "CONSUMER.INFO.%s.*", "CONSUMER.DELETE.%s.*"} {
			// The server refuses an empty request to create or to update, and finds no consumer.
			out = append(out, right{subject: "$JS.API." + fmt.Sprintf(r, stream), body: "{}"})
		}
	}
	for n, r := range out {
		if r.example == "" {
			out[n].example = strings.NewReplacer("*", "check", ">", "check").Replace(r.subject)
		}
	}
	return out
}

// permissions sets i.missing to the rights that the user lacks, and returns an error with them. A
// server reports a refused message before it answers the next ping.
func (i *inspection) permissions(ctx context.Context) error {
	inbox := nats.NewInbox()
	sub, err := i.nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("subscribing to an inbox: %w", err)
	}
	if refused, err := i.refused(ctx, inbox); err != nil {
		return err
	} else if refused {
		i.missing = append(i.missing, inboxRight)
	}
	_ = sub.Unsubscribe() // the connection ends soon
	for _, r := range i.rights() {
		msg := nats.NewMsg(r.example)
		msg.Data = []byte(r.body)
		if r.body == "" {
			msg.Header.Set("Nats-Expected-Stream", "none") // so that no stream stores it
		}
		if err := i.nc.PublishMsg(msg); err != nil {
			return fmt.Errorf("asking for the permission to publish to %s: %w", r.subject, err)
		}
		if refused, err := i.refused(ctx, r.example); err != nil {
			return err
		} else if refused {
			i.missing = append(i.missing, "publish to "+r.subject)
		}
	}
	if i.missing != nil {
		return fmt.Errorf("the bot's user may not %s: without that the bot does not start or cannot write. Give it the permissions of "+
			"deploy/nats/nats.conf", strings.Join(i.missing, ", "))
	}
	return nil
}

// refused reports whether the server has refused the last operation on a subject.
func (i *inspection) refused(ctx context.Context, subject string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := i.nc.FlushWithContext(ctx); err != nil {
		return false, fmt.Errorf("asking for the permissions: %w", err)
	}
	err := i.nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject)), nil
}
