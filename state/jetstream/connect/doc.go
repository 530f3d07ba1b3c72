// Package connect opens connections to NATS: to external servers, with TLS and a user, or to a
// server in this process, which it runs on the files of one directory.
package connect
