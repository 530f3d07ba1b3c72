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
	// Limits for reading logs: the last lines, bytes, pods and time. The tracebacks of an engine
	// and of its parent process have about 80 lines.
	logLines    = int64(160)
	logBytes    = int64(64 << 10)
	logPods     = 4
	logDeadline = 1500 * time.Millisecond
)

// A crash is the last failed end of a pod's container.
type crash struct {
	worker    state.Worker
	pod       *corev1.Pod
	container string
	end       *corev1.ContainerStateTerminated
	previous  bool // read the log of the previous container
}

// ofEngine returns the states of the containers that tell of a pod's engine: its own, and those of
// init containers until it starts. A sidecar that ends says nothing about it. All containers count
// if none is known to run an engine.
func ofEngine(p *corev1.Pod) []corev1.ContainerStatus {
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	c, engine := engineContainer(p.Spec)
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
	if engine == "" || i < 0 {
		return all
	}
	own := p.Status.ContainerStatuses[i]
	if own.State.Running == nil && own.State.Terminated == nil && own.LastTerminationState.Terminated == nil {
		return append(slices.Clone(p.Status.InitContainerStatuses), own)
	}
	return []corev1.ContainerStatus{own}
}

// crashOf returns the pod's last container end that was not a success.
func crashOf(p *corev1.Pod) (crash, bool) {
	d := crash{pod: p}
	for _, s := range ofEngine(p) {
		for i, t := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if t != nil && t.Reason != "Completed" && (d.end == nil || t.FinishedAt.After(d.end.FinishedAt.Time)) {
				d.container, d.end, d.previous = s.Name, t, i == 0
			}
		}
	}
	return d, d.end != nil
}

// lastErrors adds the class of the last error of each pod that failed recently. The termination
// message is in the pod's status; all pods can have it (terminationMessagePolicy
// FallbackToLogsOnError). If it has no known error, lastErrors reads the end of the container's
// log, which needs the verb get on pods/log.
func (c *Client) lastErrors(ctx context.Context, b *builder, out *enrich.Reading) {
	if !b.wanted["pod_last_error"] {
		return
	}
	var silent []crash
	for _, w := range b.found {
		d, ok := crashOf(b.workerPods[w.Namespace+"/"+w.Pod])
		// Exit code 0 is not an error, and a process that the kernel killed writes nothing.
		if !ok || d.end.ExitCode == 0 || d.end.Reason == "OOMKilled" ||
			!d.end.FinishedAt.After(b.q.Onset.Add(-recent)) {
			continue
		}
		d.worker = w
		if class := LastError(d.end.Message); class != "" {
			b.add("pod_last_error", entityOf(w), 1, class)
			continue
		}
		silent = append(silent, d)
	}
	slices.SortStableFunc(silent, func(x, y crash) int { return y.end.FinishedAt.Compare(x.end.FinishedAt.Time) })
	silent = silent[:min(len(silent), logPods)]
	texts, failed := c.logs(ctx, silent)
	for i, d := range silent {
		if class := LastError(texts[i]); class != "" {
			b.add("pod_last_error", entityOf(d.worker), 1, class)
		}
	}
	if failed != nil {
		out.Notes = append(out.Notes, state.Missing{Signal: "pod_last_error",
			Reason: enrich.Explain("Kubernetes, reading the log of a dead container", failed)})
	}
}

// logs returns the ends of the logs of failed containers, and one of the errors if some could not
// be read.
func (c *Client) logs(ctx context.Context, of []crash) ([]string, error) {
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
		// A log that was deleted with its node or container is not a problem to report.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) && failed == nil {
			failed = err
		}
	}
	return texts, failed
}

func (c *Client) log(ctx context.Context, d crash) (string, error) {
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
