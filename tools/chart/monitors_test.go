package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// The objects for users' own Prometheus operator have only fields that their kinds know.
func TestOperatorsObjectsFitTheirSchemas(t *testing.T) {
	known := runtime.NewScheme()
	if err := monitoringv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	kinds := map[string]int{}
	for _, pattern := range []string{"prometheus/operator/*.yaml", "prometheus/scrape/operator/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(deployDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for doc := range strings.SplitSeq(string(raw), "\n---\n") {
				_, kind, err := strict.Decode([]byte(doc), nil, nil)
				if err != nil {
					t.Errorf("%s: %v\n%s", file, err, doc)
					continue
				}
				kinds[kind.Kind]++
			}
		}
	}
	for kind, least := range map[string]int{"PrometheusRule": 8, "PodMonitor": 8, "ServiceMonitor": 3} {
		if kinds[kind] < least {
			t.Errorf("%d of kind %s, want at least %d", kinds[kind], kind, least)
		}
	}
}
