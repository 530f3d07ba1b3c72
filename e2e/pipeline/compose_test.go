package pipeline

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"paramedic/e2e/bot"
	"paramedic/lab"
)

// A composition holds what compose.yaml says of the programs that run here. Files are copied into
// dir, and texts that name a file or an address of a container name those of this machine.
type composition struct {
	t        *testing.T
	dir      string
	address  map[string]string // of this machine, by container and port
	Services map[string]service
	Secrets  map[string]struct{ File string }
}

type service struct {
	Command []string
	Volumes []struct{ Type, Source, Target string }
	Secrets []string
}

// compose reads deploy/compose and makes its secrets.
func compose(t *testing.T) *composition {
	t.Helper()
	c := &composition{t: t, dir: t.TempDir(), address: map[string]string{}}
	if err := os.CopyFS(filepath.Join(c.dir, "compose"), os.DirFS("../../deploy/compose")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", c.file("compose/secrets.sh")).CombinedOutput(); err != nil {
		t.Fatalf("secrets.sh: %v\n%s", err, out)
	}
	raw := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`).ReplaceAll(c.read("compose/compose.yaml"), []byte("$1"))
	if err := yaml.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lab:9400", "paramedic:8080", "prometheus:9090", "alertmanager:9093"} {
		c.address[name] = bot.FreeAddress(t)
	}
	return c
}

func (c *composition) file(name string) string { return filepath.Join(c.dir, name) }

func (c *composition) read(name string) []byte {
	c.t.Helper()
	raw, err := os.ReadFile(c.file(name))
	if err != nil {
		c.t.Fatal(err)
	}
	return raw
}

// here returns a text of a container with the addresses and files of this machine.
func (c *composition) here(name, text string) string {
	c.t.Helper()
	var replace []string
	for _, secret := range c.Services[name].Secrets {
		replace = append(replace, "/run/secrets/"+secret, filepath.Join(c.dir, "compose", c.Secrets[secret].File))
	}
	for container, address := range c.address {
		_, port, _ := strings.Cut(container, ":")
		replace = append(replace, "http://"+container, "http://"+address, container, address, "0.0.0.0:"+port, address)
	}
	for _, v := range c.Services[name].Volumes {
		begins := regexp.MustCompile(`(^|[\s=])` + regexp.QuoteMeta(v.Target))
		text = begins.ReplaceAllString(text, "${1}"+filepath.Join(c.dir, name, v.Target))
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// mount copies the files that a container mounts.
func (c *composition) mount(name string) {
	c.t.Helper()
	for _, v := range c.Services[name].Volumes {
		target := filepath.Join(c.dir, name, v.Target)
		if v.Type != "bind" {
			if err := os.MkdirAll(target, 0o700); err != nil {
				c.t.Fatal(err)
			}
			continue
		}
		source := filepath.Join("../../deploy/compose", v.Source)
		err := filepath.WalkDir(source, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			to := target + strings.TrimPrefix(path, source)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			return os.WriteFile(to, []byte(c.here(name, string(raw))), 0o600)
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// start runs a container's program with its command and more arguments.
func (c *composition) start(name, program string, more ...string) {
	c.t.Helper()
	c.mount(name)
	var args []string
	for _, arg := range c.Services[name].Command {
		args = append(args, c.here(name, arg))
	}
	if err := os.MkdirAll(c.file(name), 0o700); err != nil {
		c.t.Fatal(err)
	}
	child(c.t, c.file(name), program, append(args, more...)...)
}

// TestCompositionFindsTheFault runs the programs of deploy/compose with its files. Only addresses
// and paths differ, and the lab is ten times as fast, so that its fault comes after half a minute.
func TestCompositionFindsTheFault(t *testing.T) {
	t.Parallel()
	c, b := compose(t), bot.New(t)
	c.address["paramedic:8080"] = strings.TrimPrefix(b.URL(), "http://")
	c.start("lab", bot.Binary(t), "--speed", "10")
	c.start("alertmanager", "prometheus-alertmanager", "--web.listen-address="+c.address["alertmanager:9093"])
	c.start("prometheus", "prometheus", "--web.listen-address="+c.address["prometheus:9090"])
	c.mount("paramedic")
	b.ConfigureRaw(c.read("paramedic/etc/paramedic/paramedic.yaml"))
	var tokens []struct{ Token string }
	if err := yaml.Unmarshal(c.read("compose/secrets/tokens.yaml"), &tokens); err != nil {
		t.Fatal(err)
	}
	b.Token = tokens[0].Token
	b.Start()
	prometheus := "http://" + c.address["prometheus:9090"]
	bot.Eventually(t, 60*time.Second, "every page is scraped", func() error { return scraped(prometheus) })
	bot.Eventually(t, 3*time.Minute, "one incident names the lab's fault", func() error {
		list, err := b.Incidents()
		if err == nil && (len(own(list)) != 1 || own(list)[0].Cause != lab.GPUFault) {
			rules, failed := firing(prometheus)
			err = fmt.Errorf("%d incidents: %+v; of the rules fire %v (%v)", len(list), list, rules, failed)
		}
		return err
	})
	if in := own(b.MustIncidents())[0]; in.Scope.Cluster != "lab" || in.Scope.Pool != "vllm-llama" || in.Playbook == "" {
		t.Errorf("%+v", in)
	}
}

// scraped returns an error unless Prometheus has found the lab's pages and the bot's, and reads
// each.
func scraped(prometheus string) error {
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				Labels                       map[string]string
				ScrapeURL, Health, LastError string
			}
		}
	}
	if err := getJSON(prometheus+"/api/v1/targets?state=active", &answer); err != nil {
		return err
	}
	missing := []string{"vllm", "dcgm-exporter", "epp", "kube-state-metrics", "paramedic"}
	for _, target := range answer.Data.ActiveTargets {
		if target.Health != "up" {
			return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
		}
		missing = slices.DeleteFunc(missing, func(job string) bool { return job == target.Labels["job"] })
	}
	if len(missing) > 0 {
		return fmt.Errorf("no page of the jobs %v", missing)
	}
	return nil
}
