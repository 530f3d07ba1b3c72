package catalog

import "regexp"

// fixedPlaceholders are valid in any text of a cause. Evidence may also use its signals, such as
// {kv_usage} or {kv_usage.baseline}.
var fixedPlaceholders = []string{
	"cluster", "namespace", "model", "pool", "target", "pod", "pods", "node", "nodes", "gpu", "gpus", "workers",
	"broken", "of_workers", "full_in", "count", "total", "entity", "xid", "xid_title", "xid_name", "xid_meaning",
	"xid_action", "xid_asks", "xid_beside", "rule",
}

// Fixed placeholders that are valid only in evidence, which is about one entity, or only in texts
// about the whole verdict.
var ofEvidence, ofVerdicts = []string{"full_in", "count", "total"}, []string{"pods", "nodes", "gpus", "broken",
	"of_workers"}

var PlaceholderForm = regexp.MustCompile(`\{([a-z0-9_.]+)\}`)

func placeholders(s string) []string {
	var out []string
	for _, m := range PlaceholderForm.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}
