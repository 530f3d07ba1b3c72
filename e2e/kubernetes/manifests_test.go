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
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// botAccount is the bot's user name in the audit log.
const botAccount = "system:serviceaccount:paramedic:paramedic"

// shipped applies a manifest of deploy/kubernetes unchanged. Objects without a namespace get the
// given one, as with kubectl -n.
func shipped(ctx context.Context, file, namespace string) error {
	raw, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", file))
	if err != nil {
		return err
	}
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		switch o := obj.(type) {
		case *corev1.ServiceAccount:
			if err := ensureNamespace(ctx, o.Namespace); err != nil {
				return err
			}
			_, err = admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = admin.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = admin.RbacV1().Roles(namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = admin.RbacV1().RoleBindings(namespace).Create(ctx, o, metav1.CreateOptions{})
		default:
			err = fmt.Errorf("the suite cannot apply a %T", obj)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

func ensureNamespace(ctx context.Context, name string) error {
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// asBot returns a token of the manifests' service account.
func asBot(t *testing.T) string {
	t.Helper()
	hour := int64(3600)
	return must(admin.CoreV1().ServiceAccounts("paramedic").CreateToken(t.Context(), "paramedic",
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{}))(t).Status.Token
}

// botClient returns a client with the bot's rights.
func botClient(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	return must(kubernetes.NewForConfig(&rest.Config{Host: control.Config.Host, BearerToken: asBot(t),
		TLSClientConfig: rest.TLSClientConfig{CAData: control.CA()}}))(t)
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
