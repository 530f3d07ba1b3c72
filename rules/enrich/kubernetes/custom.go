package kubernetes

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// customKinds are the custom resources that own workers or route requests to them, each with its
// versions, newest first. They need not be installed. InferenceServices are not read, because owner
// references contain their names. InferencePools of the older group are a kind of their own:
// releases 1.0 to 1.4 of the extension install both groups, and each pool is in one of them.
var customKinds = []struct {
	kind     string
	versions []schema.GroupVersionResource
}{
	{"LeaderWorkerSet", versions("leaderworkerset.x-k8s.io", "leaderworkersets", "v1")},
	{"DynamoGraphDeployment", versions("nvidia.com", "dynamographdeployments", "v1beta1", "v1alpha1")},
	{"DynamoComponentDeployment", versions("nvidia.com", "dynamocomponentdeployments", "v1beta1", "v1alpha1")},
	{"RayCluster", versions("ray.io", "rayclusters", "v1")},
	{"RayService", versions("ray.io", "rayservices", "v1")},
	{"InferencePool", versions("inference.networking.k8s.io", "inferencepools", "v1")},
	{"InferencePool", versions("inference.networking.x-k8s.io", "inferencepools", "v1alpha2")},
	{"HTTPRoute", versions("gateway.networking.k8s.io", "httproutes", "v1")},
}

func versions(group, resource string, names ...string) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, v := range names {
		out = append(out, schema.GroupVersionResource{Group: group, Version: v, Resource: resource})
	}
	return out
}

const (
	// customDeadline is shorter than a gathering's deadline, because custom resources are less
	// important than the rest.
	customDeadline = 2 * time.Second
	// absentFor is the time for which a missing kind is not requested again.
	absentFor = 10 * time.Minute
)

// customReader lists custom resources. It is safe for concurrent use.
type customReader struct {
	api dynamic.Interface

	mu     sync.Mutex
	absent map[schema.GroupVersionResource]time.Time
}

func newCustomReader(api dynamic.Interface) *customReader {
	return &customReader{api: api, absent: map[schema.GroupVersionResource]time.Time{}}
}

// list reads all kinds in parallel. A kind that is not installed has no objects; a failed read is a
// note.
func (r *customReader) list(
	ctx context.Context, q enrich.Query,
) (map[string][]unstructured.Unstructured, []state.Missing) {
	if r.api == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, customDeadline)
	defer cancel()
	found := make([][]unstructured.Unstructured, len(customKinds))
	errs := make([]error, len(customKinds))
	var wg sync.WaitGroup
	for i, k := range customKinds {
		wg.Go(func() { found[i], errs[i] = r.newest(ctx, k.versions, q) })
	}
	wg.Wait()
	out := map[string][]unstructured.Unstructured{}
	var notes []state.Missing
	for i, k := range customKinds {
		out[k.kind] = append(out[k.kind], found[i]...)
		if errs[i] != nil {
			notes = append(notes, state.Missing{Signal: "topology",
				Reason: enrich.Explain("Kubernetes, listing "+k.versions[0].Resource, errs[i])})
		}
	}
	return out, notes
}

// newest lists a kind in the first of its versions that the server has.
func (r *customReader) newest(ctx context.Context, of []schema.GroupVersionResource,
	q enrich.Query) ([]unstructured.Unstructured, error) {
	for _, v := range of {
		if r.isAbsent(v, q.Now) {
			continue
		}
		items, err := r.all(ctx, v, q.Scope.Namespace)
		if !apierrors.IsNotFound(err) {
			return items, err
		}
		r.mu.Lock()
		r.absent[v] = q.Now
		r.mu.Unlock()
	}
	return nil, nil
}

// isAbsent reports whether a kind was not installed when it was last requested.
func (r *customReader) isAbsent(v schema.GroupVersionResource, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.absent[v]
	return ok && now.Sub(at).Abs() < absentFor
}

func (r *customReader) all(ctx context.Context, v schema.GroupVersionResource,
	namespace string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	opts := metav1.ListOptions{Limit: pageSize}
	for range maxPages {
		l, err := r.api.Resource(v).Namespace(namespace).List(ctx, opts)
		if err != nil {
			return out, err
		}
		out = append(out, l.Items...)
		if opts.Continue = l.GetContinue(); opts.Continue == "" {
			break
		}
	}
	return out, nil
}
