package natstest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A Link carries the connections of one client to a server, until it is cut.
type Link struct {
	URL string // for the client

	listener net.Listener
	server   string

	mu    sync.Mutex
	cut   bool
	flows chan struct{} // closed while bytes pass
	conns map[net.Conn]bool
}

// Links opens a link to each of the servers, for one client.
func Links(t testing.TB, urls string) []*Link {
	t.Helper()
	var all []*Link
	for url := range strings.SplitSeq(urls, ",") {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &Link{URL: "nats://" + listener.Addr().String(), listener: listener, server: strings.TrimPrefix(url, "nats://"),
			flows: make(chan struct{}), conns: map[net.Conn]bool{}}
		close(l.flows)
		var serving sync.WaitGroup
		serving.Go(l.serve)
		t.Cleanup(func() {
			listener.Close()
			l.Cut()
			l.flow() // ends the goroutines of a stalled link
			serving.Wait()
		})
		all = append(all, l)
	}
	return all
}

// URLs returns the URLs of links, with commas between them.
func URLs(links []*Link) string {
	var urls []string
	for _, l := range links {
		urls = append(urls, l.URL)
	}
	return strings.Join(urls, ",")
}

func (l *Link) serve() {
	var carrying sync.WaitGroup
	defer carrying.Wait()
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil || !l.keep(client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		carrying.Go(func() { l.carry(client, server) })
		carrying.Go(func() { l.carry(server, client) })
	}
}

// keep reports whether the link is not cut, and then remembers the connections.
func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if !l.cut {
			l.conns[c] = true
		}
	}
	return !l.cut
}

// carry copies until one end closes, and closes both.
func (l *Link) carry(to, from net.Conn) {
	_, _ = io.Copy(to, slow{from, l}) // the end of either connection ends it
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(l.conns, c)
	}
}

// A slow reads from a connection while its link is not stalled.
type slow struct {
	net.Conn
	l *Link
}

// Read holds back what it has read until the link flows.
func (s slow) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.l.mu.Lock()
	flows := s.l.flows
	s.l.mu.Unlock()
	<-flows
	return n, err
}

// Stall holds back all bytes, and leaves the connections open, until Mend.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flows = make(chan struct{})
}

// flow lets bytes pass.
func (l *Link) flow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.flows:
	default:
		close(l.flows)
	}
}

// Cut closes the connections, and refuses new ones until Mend.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close()
	}
}

// Mend lets the client connect again, and bytes pass.
func (l *Link) Mend() {
	l.flow()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}
