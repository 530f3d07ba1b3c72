// Command vuln reports known vulnerabilities in the code that the product reaches, with govulncheck
// as a library. It fails if there is one.
//
//	vuln [-db URL] [-root FOLDER] [PACKAGE]…
//
// The list of vulnerabilities is on the network. If its server does not answer, nothing is checked:
// vuln then prints a line that begins with NOT CHECKED and gives the reason, and does not fail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/vuln/scan"
)

// errSilent means that the server of the vulnerabilities does not answer.
var errSilent = errors.New("it does not answer")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("vuln", flag.ContinueOnError)
	db := f.String("db", "https://vuln.go.dev", "`URL` of the vulnerabilities; file:// for a copy")
	root := f.String("root", "../..", "the module's `folder`")
	if err := f.Parse(args); err != nil {
		return err
	}
	packages := f.Args()
	if len(packages) == 0 {
		packages = []string{"./cmd/paramedic"}
	}
	switch err := answers(ctx, *db); {
	case errors.Is(err, errSilent):
		fmt.Fprintf(out, "NOT CHECKED: known vulnerabilities, because %v. Run `make vuln` where it answers.\n", err)
		return nil
	case err != nil:
		return err
	}
	cmd := scan.Command(ctx, append([]string{"-C", *root, "-db", *db}, packages...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting govulncheck: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("govulncheck: %w", err)
	}
	return nil
}

// answers returns nil if a server has vulnerabilities, and errSilent if nothing answers there now.
func answers(ctx context.Context, db string) error {
	if strings.HasPrefix(db, "file://") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimRight(db, "/")+"/index/modules.json.gz", nil)
	if err != nil {
		return fmt.Errorf("-db: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", db, errSilent, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return fmt.Errorf("%s: %w: %s", db, errSilent, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s is no list of vulnerabilities: it answers %s to HEAD /index/modules.json.gz", db, resp.Status)
	}
	return nil
}
