package jetstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state"
)

// Metadata of both streams: the format of the store, and the version that opened it last.
const (
	formatKey  = "paramedic-format"
	versionKey = "paramedic-version"
)

// withFormat returns the metadata of a stream with the format that this Paramedic writes.
func (c *Config) withFormat(metadata map[string]string) map[string]string {
	metadata = maps.Clone(metadata)
	metadata[formatKey], metadata[versionKey] = strconv.Itoa(state.Format), c.Version
	return metadata
}

// checkFormat returns an error if a stream's metadata names a format that this Paramedic does not
// read. A stream without a format is of format 1.
func (c *Config) checkFormat(metadata map[string]string) error {
	text, ok := metadata[formatKey]
	if n, err := strconv.Atoi(text); !ok || err == nil && n <= state.Format {
		return nil
	}
	return fmt.Errorf("this store was written by Paramedic %s with format %s, and this Paramedic (%s) reads up to %d: "+
		"start that version again, or a newer one; to go back, restore a backup from before the upgrade. Nothing was changed",
		metadata[versionKey], text, c.Version, state.Format)
}

// checkFiles checks the format of an embedded store before anything opens its files. A file that
// cannot be read is left to the server, and the streams are checked again.
func (c *Config) checkFiles() error {
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
			if err := c.checkFormat(info.Metadata); err != nil {
				return err
			}
		}
	}
	return nil
}
