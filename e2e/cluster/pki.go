package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// makePKI writes the CA, a certificate for each component, and the key of service accounts' tokens.
func (c *Cluster) makePKI() error {
	var err error
	if c.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, c.caKey.Public(), c.caKey)
	if err != nil {
		return err
	}
	if c.ca, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	c.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(c.file("ca.crt"), c.caPEM, 0o644); err != nil {
		return err
	}
	for _, x := range []struct {
		file, cn string
		org      []string
	}{
		{"apiserver", "kube-apiserver", nil},
		{"admin", "e2e-admin", []string{"system:masters"}},
		{"kcm", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"front-proxy", "front-proxy", nil},
	} {
		crt, key, err := c.sign(x.cn, x.org...)
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.file(x.file+".crt"), crt, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(c.file(x.file+".key"), key, 0o600); err != nil {
			return err
		}
	}
	sa, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	b, _ := x509.MarshalPKCS8PrivateKey(sa)
	if err := os.WriteFile(c.file("sa.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}),
		0o600); err != nil {
		return err
	}
	b, _ = x509.MarshalPKIXPublicKey(sa.Public())
	return os.WriteFile(c.file("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}), 0o644)
}

// CA returns the cluster's CA certificate as PEM.
func (c *Cluster) CA() []byte { return c.caPEM }

// sign issues a client and server certificate for 127.0.0.1 / localhost.
func (c *Cluster) sign(cn string, org ...string) (crt, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	tmpl := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: cn, Organization: org},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("10.96.0.1")},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.ca, k.Public(), c.caKey)
	if err != nil {
		return nil, nil, err
	}
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kb}), nil
}

// ServerTLS returns a TLS configuration for a test's own HTTPS server on loopback. Its certificate
// is issued by CA.
func (c *Cluster) ServerTLS() (*tls.Config, error) {
	crt, key, err := c.sign("e2e-server")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(crt, key)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, err
}

// writeKubeconfig writes a kubeconfig with a component's certificate.
func (c *Cluster) writeKubeconfig(name string) error {
	kc := clientcmdapi.NewConfig()
	kc.Clusters["e2e"] = &clientcmdapi.Cluster{Server: c.url, CertificateAuthority: c.file("ca.crt")}
	kc.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: c.file(name + ".crt"),
		ClientKey: c.file(name + ".key")}
	kc.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: name}
	kc.CurrentContext = "e2e"
	return clientcmd.WriteToFile(*kc, c.file(name+".kubeconfig"))
}
