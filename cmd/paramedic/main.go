// Command paramedic is the first responder of an LLM inference fleet. It takes Alertmanager's
// alerts, names the root cause with live evidence, notifies people with the playbook's checks
// already run, and gives guarded first aid if it is allowed to.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // what does not end at the first signal does at the second
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
