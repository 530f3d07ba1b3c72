package kubernetes

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"paramedic/rules/enrich"
	"paramedic/state"
)

const (
	// What is read of a log: the end of it, so much of it, of so many pods, within so long. A
	// traceback of an engine and of the process that started it are some 80 lines.
	logLines    = int64(160)
	logBytes    = int64(64 << 10)
	logPods     = 4
	logDeadline = 1500 * time.Millisecond
)

// A death is the last bad end of a pod's container.
type death struct {
	worker    state.Worker
	pod       *corev1.Pod
	container string
	end       *corev1.ContainerStateTerminated
	previous  bool // its log is that of the container before this one
}

// deathOf is the last end of any container of the pod that was not a success.
func deathOf(p *corev1.Pod) (death, bool) {
	d := death{pod: p}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for i, t := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if t != nil && t.Reason != "Completed" && (d.end == nil || t.FinishedAt.After(d.end.FinishedAt.Time)) {
				d.container, d.end, d.previous = s.Name, t, i == 0
			}
		}
	}
	return d, d.end != nil
}

// lastWords says of what class the last words of the pods are that died of an error lately. The
// termination message is in the pod's status (all of them can have it: terminationMessagePolicy
// FallbackToLogsOnError); where it tells nothing the end of the container's log is read, which
// needs the verb get on pods/log.
func (c *Client) lastWords(ctx context.Context, b *builder, out *enrich.Reading) {
	if !b.wanted["pod_last_error"] {
		return
	}
	var silent []death
	for _, w := range b.found {
		d, ok := deathOf(b.ours[w.Namespace+"/"+w.Pod])
		// Exit code 0 is no error, and whom the kernel killed said nothing.
		if !ok || d.end.ExitCode == 0 || d.end.Reason == "OOMKilled" || !d.end.FinishedAt.After(b.q.Onset.Add(-recent)) {
			continue
		}
		d.worker = w
		if class := LastError(d.end.Message); class != "" {
			b.add("pod_last_error", entityOf(w), 1, class)
			continue
		}
		silent = append(silent, d)
	}
	slices.SortStableFunc(silent, func(x, y death) int { return y.end.FinishedAt.Compare(x.end.FinishedAt.Time) })
	silent = silent[:min(len(silent), logPods)]
	texts, failed := c.logs(ctx, silent)
	for i, d := range silent {
		if class := LastError(texts[i]); class != "" {
			b.add("pod_last_error", entityOf(d.worker), 1, class)
		}
	}
	if failed != nil {
		out.Notes = append(out.Notes, state.Missing{Signal: "pod_last_error", Reason: enrich.Explain("Kubernetes, reading the log of a container that died", failed)})
	}
}

// logs reads the ends of the logs of dead containers, and gives one of the reasons why not where it
// could not.
func (c *Client) logs(ctx context.Context, of []death) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, logDeadline)
	defer cancel()
	texts, errs := make([]string, len(of)), make([]error, len(of))
	var wg sync.WaitGroup
	for i, d := range of {
		wg.Go(func() { texts[i], errs[i] = c.log(ctx, d) })
	}
	wg.Wait()
	var failed error
	for _, err := range errs {
		// A log that has gone with its node or with its container is nothing to tell anybody about.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) && failed == nil {
			failed = err
		}
	}
	return texts, failed
}

func (c *Client) log(ctx context.Context, d death) (string, error) {
	lines, bytes := logLines, logBytes
	stream, err := c.api.CoreV1().Pods(d.pod.Namespace).GetLogs(d.pod.Name, &corev1.PodLogOptions{
		Container: d.container, Previous: d.previous, TailLines: &lines, LimitBytes: &bytes,
	}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, logBytes))
	return string(text), err
}
