// Command chart renders and checks the Helm chart with Helm's own library, and generates what is
// made from it. It needs no cluster and no helm.
//
//	chart render [-f FILE]…    the manifests, with values files in order; as helm template
//	chart lint                 the chart with the values of each rung; as helm lint
//	chart generate             the chart's rules, dashboards and verbs, and deploy/kubernetes
//
// The verbs of first aid come from the declarations of its actions in package remediate. The tests
// also load deploy/compose with Compose's library, and the objects for the Prometheus operator.
package main
