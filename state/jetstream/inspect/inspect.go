// Package inspect finds out whether an external NATS is as Paramedic needs it.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/connect"
)

// An Answer is about one part of an external NATS.
type Answer struct {
	What    string
	Err     error  // nil: as Paramedic needs it
	Unknown string // if the bot's user cannot see it: where to look
}

// askTime bounds one question.
const askTime = 3 * time.Second

// NATS asks an external NATS whether it is as Paramedic needs it: its servers, the streams, the
// user's permissions, and whether writes reach the disk. It changes nothing.
func NATS(ctx context.Context, cfg jetstream.Config) []Answer {
	if err := cfg.Validate(); err != nil {
		return []Answer{{What: "nats", Err: err}}
	}
	secure, err := cfg.Login().Options()
	if err != nil {
		return []Answer{{What: "nats", Err: err}}
	}
	opts := append(secure, nats.Name("paramedic check"), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(askTime),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	var out []Answer
	var asked *nats.Conn
	for _, url := range strings.Split(cfg.URL, ",") {
		nc, err := nats.Connect(strings.TrimSpace(url), opts...)
		if err == nil {
			defer nc.Close()
			asked, err = nc, serverFits(nc)
		} else {
			err = fmt.Errorf("no connection, and the bot cannot move to this server: %w", connect.WithoutURL(err))
		}
		out = append(out, Answer{What: "nats server " + connect.Addresses(url), Err: err})
	}
	if asked == nil {
		return out
	}
	i := inspection{cfg: &cfg, nc: asked}
	i.in, i.st = cfg.Streams()
	if i.js, err = natsjs.New(asked, natsjs.WithDefaultTimeout(askTime)); err != nil {
		return append(out, Answer{What: "nats", Err: err})
	}
	out = append(out, Answer{What: "nats permissions", Err: i.permissions(ctx)}, Answer{What: "nats replicas", Err: i.replicas()})
	for _, stream := range []*natsjs.StreamConfig{&i.in, &i.st} {
		out = append(out, Answer{What: "nats stream " + stream.Name, Err: i.stream(ctx, stream)})
	}
	return append(out, i.sync(ctx))
}

// serverFits returns an error if the connected server is too old, or refuses large payloads.
func serverFits(nc *nats.Conn) error {
	var major, minor int
	if _, err := fmt.Sscanf(nc.ConnectedServerVersion(), "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("the version %q is not of the form 2.12.0: use a NATS server of 2.12 or newer", nc.ConnectedServerVersion())
	}
	var wrong []error
	if major < 2 || major == 2 && minor < 12 {
		wrong = append(wrong, fmt.Errorf("NATS %s has no atomic batches, without which the bot does not start: "+
			"upgrade every server to 2.12 or newer", nc.ConnectedServerVersion()))
	}
	if have := nc.MaxPayload(); have < jetstream.MaxValue {
		wrong = append(wrong, fmt.Errorf("max_payload is %d bytes, so a larger webhook payload is refused: set max_payload: 8MB", have))
	}
	return errors.Join(wrong...)
}

// An inspection asks one server of an external NATS.
type inspection struct {
	cfg     *jetstream.Config
	in, st  natsjs.StreamConfig // as the bot wants them
	nc      *nats.Conn
	js      natsjs.JetStream
	missing []string // permissions
}

func (i *inspection) replicas() error {
	switch clustered := i.nc.ConnectedClusterName() != ""; {
	case clustered && i.cfg.Replicas < 3:
		return fmt.Errorf("state.nats.replicas is %d in a cluster, so the loss of one server stops the bot, and the loss of its disk "+
			"loses the state: set it to 3", i.cfg.Replicas)
	case !clustered && i.cfg.Replicas > 1:
		return fmt.Errorf("state.nats.replicas is %d and the server is in no cluster, so the bot does not start: set it to 1, "+
			"or add servers (deploy/nats)", i.cfg.Replicas)
	}
	return nil
}

// A setting is one of a stream, and the consequence if it differs.
type setting struct {
	name       string
	have, want any
	means      string
}

// stream compares a stream with the settings that it needs. A stream that does not exist yet is
// fine: the bot creates it.
func (i *inspection) stream(ctx context.Context, want *natsjs.StreamConfig) error {
	if slices.Contains(i.missing, inboxRight) || slices.Contains(i.missing, "publish to $JS.API.STREAM.INFO."+want.Name) {
		return errors.New("cannot be asked for: see the permissions")
	}
	str, err := i.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, natsjs.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("no answer, so the bot would not start: check that JetStream is on and that most servers are up: %w",
			err)
	}
	info := str.CachedInfo()
	have := &info.Config
	var wrong []error
	if err := i.cfg.CheckFormat(have.Metadata); err != nil {
		wrong = append(wrong, err)
	}
	if have.Storage != want.Storage {
		wrong = append(wrong, errors.New("it is in memory, so a restart of its server loses the state, and storage cannot be changed: "+
			"stop the bot, run `paramedic state export`, delete the stream, and import"))
	}
	for _, s := range settings(have, want) {
		if s.have != s.want {
			wrong = append(wrong, fmt.Errorf("%s is %v, and Paramedic needs %v, because otherwise %s: start the bot again, which sets it",
				s.name, s.have, s.want, s.means))
		}
	}
	if info.Cluster != nil {
		for _, peer := range info.Cluster.Replicas {
			if peer.Offline {
				wrong = append(wrong, fmt.Errorf("its replica on %s is offline: start that server", peer.Name))
			}
		}
	}
	return errors.Join(wrong...)
}

// settings returns what a start of the bot would change.
func settings(have, want *natsjs.StreamConfig) []setting {
	const removed = "the server removes messages that the bot needs"
	perSubject := want.MaxMsgsPerSubject
	if perSubject == 0 {
		perSubject = -1
	}
	subjects := func(c *natsjs.StreamConfig) string {
		return strings.Join(slices.Sorted(slices.Values(c.Subjects)), " ")
	}
	return []setting{
		{"replicas", have.Replicas, want.Replicas, "the loss of a server stops the bot or loses the state"},
		{"retention", have.Retention, want.Retention, removed},
		{"max_age", have.MaxAge, want.MaxAge, removed + ", or keeps them longer than state.retain"},
		{"max_msgs", have.MaxMsgs, int64(-1), removed},
		{"max_bytes", have.MaxBytes, int64(-1), removed},
		{"max_msgs_per_subject", have.MaxMsgsPerSubject, perSubject, removed + ", or keeps old values"},
		{"max_msg_size", have.MaxMsgSize, int32(-1), "it refuses large payloads"},
		{"subjects", subjects(have), subjects(want), "the bot's messages are not stored"},
		{"allow_atomic", have.AllowAtomicPublish, want.AllowAtomicPublish, "the bot cannot write"},
		{"allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL, "deleted records stay"},
		{"allow_direct", have.AllowDirect, want.AllowDirect, "the bot may read old values"},
		{"sealed", have.Sealed, false, "the bot cannot write"},
	}
}

// whereSynced answers what a bot's user cannot ask.
const whereSynced = "the bot's user cannot ask for it. Look at every server: its configuration needs `sync_interval: always` in " +
	"the section jetstream, and http://127.0.0.1:8222/jsz shows config.sync_always, if http is configured. Otherwise a power " +
	"failure loses alerts that Alertmanager does not send again"

// sync asks the servers whether a write is on disk before they acknowledge it. Only the system
// account answers, and few clusters let another account ask it.
func (i *inspection) sync(ctx context.Context) Answer {
	a := Answer{What: "nats sync"}
	replies, err := i.settingsOfServers(ctx)
	if err != nil {
		a.Err = err
		return a
	}
	for name, c := range replies {
		if !c.SyncAlways {
			a.Err = errors.Join(a.Err, fmt.Errorf("%s writes to disk only every %s, so a power failure loses alerts that Alertmanager "+
				"does not send again: set jetstream.sync_interval: always", name, c.SyncInterval))
		}
	}
	if len(replies) == 0 {
		a.Unknown = whereSynced
	}
	return a
}

// settingsOfServers returns the settings of JetStream by server. It is empty if the user may not
// ask, or if no server answers it.
func (i *inspection) settingsOfServers(ctx context.Context) (map[string]server.JetStreamConfig, error) {
	const subject = "$SYS.REQ.SERVER.PING.JSZ"
	sub, err := i.nc.SubscribeSync(nats.NewInbox())
	if err == nil {
		err = i.nc.PublishRequest(subject, sub.Subject, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the servers for their settings: %w", err)
	}
	if refused, err := i.refused(ctx, subject); refused || err != nil {
		return nil, err
	}
	out := map[string]server.JetStreamConfig{}
	for patience := askTime; ; patience = askTime / 4 { // the number of servers is not known
		one, cancel := context.WithTimeout(ctx, patience)
		msg, err := sub.NextMsgWithContext(one)
		cancel()
		if err != nil || msg.Header.Get("Status") == "503" { // no more answers, or nothing that answers
			return out, nil
		}
		var reply struct {
			Server server.ServerInfo `json:"server"`
			Data   struct {
				Config server.JetStreamConfig `json:"config"`
			} `json:"data"`
		}
		if json.Unmarshal(msg.Data, &reply) == nil && reply.Data.Config.StoreDir != "" {
			out[reply.Server.Name] = reply.Data.Config
		}
	}
}
