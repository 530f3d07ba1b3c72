package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"paramedic/remediate"
)

// chartFiles returns the generated files of the chart, by path below deploy: copies of rules and
// dashboards, because a chart cannot read outside its folder, and the verbs of first aid.
func chartFiles() (map[string][]byte, error) {
	out := map[string][]byte{
		"helm/paramedic/files/first-aid-reads.yaml":  policyRules(remediate.ReadVerbs()),
		"helm/paramedic/files/first-aid-writes.yaml": policyRules(remediate.WriteVerbs()),
	}
	copies := map[string]string{filepath.Join(deployDir, "prometheus/self/paramedic.yml"): "rules/self.yml"}
	for pattern, folder := range map[string]string{"prometheus/*.yml": "rules", "grafana/*.json": "dashboards"} {
		names, err := filepath.Glob(filepath.Join(deployDir, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			copies[name] = folder + "/" + filepath.Base(name)
		}
	}
	for from, to := range copies {
		raw, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		out["helm/paramedic/files/"+to] = raw
	}
	return out, nil
}

// policyRules returns the rules of a Role that grants exactly the verbs.
func policyRules(verbs []remediate.Verb) []byte {
	type target struct{ group, resource string }
	byTarget := map[target][]string{}
	var order []target
	for _, v := range verbs {
		t := target{v.Group, v.Resource}
		if byTarget[t] == nil {
			order = append(order, t)
		}
		if !slices.Contains(byTarget[t], v.Verb) {
			byTarget[t] = append(byTarget[t], v.Verb)
		}
	}
	var b bytes.Buffer
	for _, t := range order {
		group := t.group
		if group == "" {
			group = `""`
		}
		fmt.Fprintf(&b, "  - apiGroups: [%s]\n    resources: [%s]\n    verbs: [%s]\n", group, t.resource, strings.Join(byTarget[t], ", "))
	}
	return b.Bytes()
}

// namespace is the plain manifests' namespace. Its pods must be confined.
const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: paramedic
  labels:
    pod-security.kubernetes.io/enforce: restricted`

// generatedBy ends the heading of each manifest.
const generatedBy = "# Made from deploy/helm/paramedic by make generate.\n"

// manifests returns the plain manifests, by path below deploy: one file for each rung, the rights
// to read alone, and the rights to write in one more namespace.
func manifests() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, rung := range rungs {
		values, err := readValues(valuesOf(rung))
		if err != nil {
			return nil, err
		}
		docs, err := render(values)
		if err != nil {
			return nil, err
		}
		heading, err := leadingComment(valuesOf(rung))
		if err != nil {
			return nil, err
		}
		out["kubernetes/"+rung+".yaml"] = join(heading+generatedBy, append([]document{{text: namespace}}, docs...))
		switch rung {
		case "observe":
			out["kubernetes/observer.yaml"] = join("# The rights to read alone, for a bot that runs elsewhere. No verb here writes.\n"+
				generatedBy, append([]document{{text: namespace}}, keep(docs, "accounts", "observer")...))
		case "approve":
			out["kubernetes/first-aid.yaml"] = join("# The rights to write in one more namespace, beside approve.yaml or auto.yaml:\n"+
				"#   kubectl -n NAMESPACE apply -f first-aid.yaml\n"+generatedBy, inAnyNamespace(docs))
		}
	}
	return out, nil
}

// keep returns the documents of some templates.
func keep(docs []document, from ...string) []document {
	return slices.DeleteFunc(slices.Clone(docs), func(d document) bool { return !slices.Contains(from, d.template) })
}

// inAnyNamespace returns the objects that approve.yaml has in the first namespace of its values,
// without that namespace.
func inAnyNamespace(docs []document) []document {
	var out []document
	for _, d := range keep(docs, "first-aid") {
		if text := strings.Replace(d.text, "\n  namespace: llm\n", "\n", 1); text != d.text {
			text, _ = strings.CutPrefix(text, "# The writes of first aid in the namespace llm.\n")
			out = append(out, document{d.template, text})
		}
	}
	return out
}

// leadingComment returns the comment at the top of a file.
func leadingComment(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

func join(heading string, docs []document) []byte {
	var b bytes.Buffer
	b.WriteString(heading)
	for i, d := range docs {
		if i > 0 {
			b.WriteString("---\n")
		}
		b.WriteString(strings.TrimSpace(d.text) + "\n")
	}
	return b.Bytes()
}
