package pipeline

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/internal/pages"
)

// TestTutorialWorksAsWritten runs every block of docs/tutorial.md in one shell, with the real
// programs, and compares what it prints with the page. Only the ports are others, and the binary is
// already built.
func TestTutorialWorksAsWritten(t *testing.T) {
	t.Parallel()
	page, err := pages.Read("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for _, port := range []string{"8080", "9400", "19090", "19093"} {
		ports = append(ports, "127.0.0.1:"+port, bot.FreeAddress(t))
	}
	moved := strings.NewReplacer(ports...)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(bot.Binary(t), filepath.Join(dir, "bin", "paramedic")); err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, dir, "PARAMEDIC_SERVER=http://"+ports[1])
	installed, compared := false, 0
	for _, b := range page.Blocks {
		switch at := fmt.Sprintf("line %d of the tutorial", b.Line); {
		case b.Lang != "sh":
			t.Errorf("%s: a block of the language %q", at, b.Lang)
		case strings.Contains(b.Text, "make build"):
			installed = installsWhatCIDoes(t, b.Text)
		case b.Output == nil:
			if out, code := sh.run(moved.Replace(b.Text)); code != "0" {
				t.Fatalf("%s exits with %s and prints\n%s", at, code, out)
			}
		default:
			compared++
			b.Output.Text = moved.Replace(b.Output.Text)
			bot.Eventually(t, 3*time.Minute, at+" prints what the page shows", func() error {
				if out, _ := sh.run(moved.Replace(b.Text)); !b.Output.Matches(out) {
					return fmt.Errorf("the page shows\n%s\nand the commands print\n%s", b.Output.Text, out)
				}
				return nil
			})
		}
	}
	if !installed || compared < 6 {
		t.Errorf("the page installs: %v, and shows %d outputs", installed, compared)
	}
	for i := 1; i < len(ports); i += 2 {
		bot.Eventually(t, soon, "the page's last block ends the server at "+ports[i-1], func() error {
			if c, err := net.Dial("tcp", ports[i]); err == nil {
				c.Close()
				return fmt.Errorf("it still listens")
			}
			return nil
		})
	}
}

// installsWhatCIDoes checks that a block installs packages that CI installs, too.
func installsWhatCIDoes(t *testing.T, block string) bool {
	t.Helper()
	ci, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, packages, ok := strings.Cut(strings.SplitN(block, "\n", 2)[0], "apt-get install --yes ")
	if !ok || !strings.Contains(string(ci), "for p in "+packages+" ") {
		t.Errorf("CI does not install the packages %q", packages)
	}
	return ok
}

// A shell runs blocks one after the other, as a person at a terminal does.
type shell struct {
	t     *testing.T
	stdin io.Writer
	lines *bufio.Reader
}

// newShell starts bash in a folder. All its processes end with the test.
func newShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	out, in := io.Pipe()
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		in.Close()
		logs, _ := filepath.Glob(filepath.Join(dir, "tutorial", "*.log"))
		for _, path := range logs {
			if text, err := os.ReadFile(path); t.Failed() && err == nil {
				t.Logf("%s:\n%s", filepath.Base(path), text)
			}
		}
	})
	return &shell{t, stdin, bufio.NewReader(out)}
}

// mark ends the output of a block. The exit code of its last command follows.
const mark = "-- the block ends with exit code "

// run runs a block, and returns its output and the exit code of its last command.
func (s *shell) run(block string) (out, code string) {
	s.t.Helper()
	fmt.Fprintf(s.stdin, "{\n%s\n} </dev/null\ncode=$?; echo; echo '%s'$code\n", block, mark)
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the shell ended: %v\n%s", err, out)
		}
		if rest, ok := strings.CutPrefix(line, mark); ok {
			return strings.TrimSuffix(out, "\n"), strings.TrimSpace(rest)
		}
		out += line
	}
}
