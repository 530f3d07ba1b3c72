package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// The bot reads as the first account. First aid plans and writes as the second.
const (
	botAccount      = "system:serviceaccount:paramedic:paramedic"
	firstAidAccount = "system:serviceaccount:paramedic:paramedic-first-aid"
)

// manifest reads the objects of a file in deploy/kubernetes.
func manifest(file string) ([]*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", file))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(doc, &o.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, o)
	}
}

// applyAsKubectl applies an object server-side, as kubectl does. The API server refuses unknown
// fields.
func applyAsKubectl(ctx context.Context, o *unstructured.Unstructured) error {
	return patch(ctx, o, metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
}

func patch(ctx context.Context, o *unstructured.Unstructured, options metav1.PatchOptions) error {
	raw, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	gvk := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var to dynamic.ResourceInterface = objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		to = objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	options.Force = new(true)
	if _, err := to.Patch(ctx, o.GetName(), types.ApplyPatchType, raw, options); err != nil {
		return fmt.Errorf("applying %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	return nil
}

// shippedRights applies the accounts and cluster-wide rights of approve.yaml, without its bot.
func shippedRights(ctx context.Context) error {
	all, err := manifest("approve.yaml")
	if err != nil {
		return err
	}
	for _, o := range all {
		switch o.GetKind() {
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			if o.GetNamespace() == "llm" {
				continue // every test has a namespace of its own
			}
			if err := applyAsKubectl(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// shippedFirstAid applies first-aid.yaml to a namespace, as kubectl -n does.
func shippedFirstAid(ctx context.Context, namespace string) error {
	all, err := manifest("first-aid.yaml")
	if err != nil {
		return err
	}
	for _, o := range all {
		o.SetNamespace(namespace)
		if err := applyAsKubectl(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// asBot returns a token of the manifests' service account.
func asBot(t *testing.T) string {
	t.Helper()
	hour := int64(3600)
	return must(admin.CoreV1().ServiceAccounts("paramedic").CreateToken(t.Context(), "paramedic",
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{}))(t).Status.Token
}

// clientOf returns a client with the bot's token that acts as an account. If the account is empty,
// it acts as the bot itself.
func clientOf(t *testing.T, account string) *kubernetes.Clientset {
	t.Helper()
	return must(kubernetes.NewForConfig(&rest.Config{Host: control.Config.Host, BearerToken: asBot(t),
		TLSClientConfig: rest.TLSClientConfig{CAData: control.CA()}, Impersonate: rest.ImpersonationConfig{UserName: account}}))(t)
}

// kubeconfig writes the bot's kubeconfig for an API server and returns its path.
func kubeconfig(t *testing.T, dir, server string) string {
	t.Helper()
	kc := clientcmdapi.NewConfig()
	kc.Clusters["e2e"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: control.CA()}
	kc.AuthInfos["paramedic"] = &clientcmdapi.AuthInfo{Token: asBot(t)}
	kc.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "paramedic"}
	kc.CurrentContext = "e2e"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		t.Fatal(err)
	}
	return path
}
