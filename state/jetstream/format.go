package jetstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
)

// Metadata of both streams.
const (
	layoutKey  = "paramedic-partitions" // the number of partitions that the records were written with
	formatKey  = "paramedic-format"     // state.Format
	versionKey = "paramedic-version"    // of the Paramedic that opened the store last
	fillingKey = "paramedic-filling"    // set while an import fills the store
)

// plainFormat is the format of a store on an external server, whose values are not compressed. So
// an older replica can start while others are upgraded.
const plainFormat = 2

// compress returns the form in which the store writes a value. On an external server it stays as it
// is: while replicas are upgraded, an older one may have to read it.
func (s *Store) compress(value []byte) []byte {
	if s.server == nil {
		return wire.Plain(value)
	}
	return wire.Compress(value)
}

// metadata returns the metadata of the streams that this Paramedic writes.
func (c *Config) metadata() map[string]string {
	format := state.Format
	if c.URL != "" {
		format = plainFormat
	}
	out := map[string]string{layoutKey: strconv.Itoa(partitions), formatKey: strconv.Itoa(format), versionKey: c.Version}
	if c.Purpose == Fill {
		out[fillingKey] = "1"
	}
	return out
}

// CheckFormat returns an error if a stream's metadata names a format that this Paramedic does not
// read. A stream without a format is of format 1.
func (c *Config) CheckFormat(metadata map[string]string) error {
	text, ok := metadata[formatKey]
	if n, err := strconv.Atoi(text); !ok || err == nil && n <= state.Format {
		return nil
	}
	return fmt.Errorf("this store was written by Paramedic %s with format %s, and this Paramedic (%s) reads up to %d: "+
		"start that version again, or a newer one; to go back, restore a backup from before the upgrade. Nothing was changed",
		metadata[versionKey], text, c.Version, state.Format)
}

// checkFiles checks an embedded store before anything opens its files: its format, and that there
// is one to read. A file that cannot be read is left to the server, and the streams are checked
// again.
func (c *Config) checkFiles() error {
	if _, err := os.Stat(filepath.Join(c.Dir, "jetstream")); err != nil && c.Purpose == Read {
		return fmt.Errorf("there is no state of Paramedic in %s: %w", c.Dir, err)
	}
	for _, stream := range []string{inputStream, stateStream} {
		files, err := filepath.Glob(filepath.Join(c.Dir, "jetstream", "*", "streams", stream, server.JetStreamMetaFile))
		if err != nil {
			return fmt.Errorf("looking for stream %s: %w", stream, err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			var info server.FileStreamInfo
			if err != nil || json.Unmarshal(raw, &info) != nil {
				continue
			}
			if err := c.CheckFormat(info.Metadata); err != nil {
				return err
			}
		}
	}
	return nil
}
