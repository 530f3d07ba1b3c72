package service

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"paramedic/internal/disktest"
	"paramedic/state/jetstream"
)

// While the disk is full, senders get 503 and the probe names the reason. Alertmanager keeps its
// alerts. When the disk has room, the same process takes them.
func TestFullDiskAnswers503(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the store to be opened again")
	}
	dir := disktest.Small(t, 48<<20)
	base, bot := startBotOn(t, jetstream.Config{Dir: dir}, slog.New(slog.DiscardHandler))
	send := func() (int, string) { return ask(t, http.MethodPost, base+"/webhook/alertmanager", oneAlert) }
	if code, answer := send(); code != http.StatusOK {
		t.Fatal(code, answer)
	}
	awaitAlerts(t, bot, 1)
	full := disktest.Fill(t, dir)
	eventually(t, "alerts are refused, and the probe names the reason", func() bool {
		code, _ := send()
		if code != http.StatusServiceUnavailable && code != http.StatusOK { // some bytes may be left
			t.Errorf("a full disk answers %d", code)
		}
		ready, why := ask(t, http.MethodGet, base+"/readyz", "")
		return code == ready && ready == http.StatusServiceUnavailable && strings.Contains(why, "no space left on device")
	})
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	eventually(t, "alerts are taken again", func() bool { code, _ := send(); return code == http.StatusOK })
	eventually(t, "the bot is ready", func() bool { code, _ := ask(t, http.MethodGet, base+"/readyz", ""); return code == http.StatusOK })
}
