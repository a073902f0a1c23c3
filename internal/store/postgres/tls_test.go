package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// authority signs the certificates of servers.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.crt")}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "authority of a test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	a.cert = template
	pair, _ := a.sign(t, template)
	if err := os.WriteFile(a.file, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a certificate and its key in PEM. The first one that it signs is the authority's own.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a.key == nil {
		a.key = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestOpen_EncryptedConnection(t *testing.T) {
	t.Parallel()
	right, other := newAuthority(t), newAuthority(t)
	serverUntil := func(end time.Time) *pgtest.Cluster {
		cert, key := right.sign(t, &x509.Certificate{
			SerialNumber: big.NewInt(2),
			Subject:      pkix.Name{CommonName: "127.0.0.1"},
			NotBefore:    time.Now().Add(-time.Hour),
			NotAfter:     end,
			IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		})
		return pgtest.NewCluster(t, pgtest.Options{
			Password: password,
			Settings: map[string]string{"ssl": "on"},
			Files:    map[string][]byte{"server.crt": cert, "server.key": key},
		})
	}
	c, expired := serverUntil(time.Now().Add(time.Hour)), serverUntil(time.Now().Add(-time.Minute))
	plain := pgtest.NewCluster(t, pgtest.Options{Password: password})
	with := func(c *pgtest.Cluster, host, mode, authority string) string {
		u, err := url.Parse(c.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort(host, u.Port())
		u.RawQuery = url.Values{"sslmode": {mode}, "sslrootcert": {authority}}.Encode()
		return u.String()
	}

	verified := with(c, "127.0.0.1", "verify-full", right.file)
	if err := save(t.Context(), open(t, verified, time.Now), "test"); err != nil {
		t.Error(err)
	}
	var encrypted bool
	query := "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
	if err := connect(t, verified).QueryRow(t.Context(), query).Scan(&encrypted); err != nil || !encrypted {
		t.Errorf("the connection is encrypted: %v, %v", encrypted, err)
	}

	for name, one := range map[string]struct {
		address, want string
		passing       bool
	}{
		"another authority": {with(c, "127.0.0.1", "verify-full", other.file), "the certificate of the database", false},
		"another host":      {with(c, "localhost", "verify-full", right.file), "the certificate of the database", false},
		"expired":           {with(expired, "127.0.0.1", "verify-full", right.file), "set the clock", true},
		"no encryption":     {with(plain, "127.0.0.1", "verify-full", right.file), "takes no encrypted connections", false},
		"no such file":      {with(c, "127.0.0.1", "verify-full", "missing.crt"), "missing.crt", false},
		"no certificate":    {with(c, "127.0.0.1", "verify-full", "tls_test.go"), "has no certificate", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Check(t.Context(), one.address, postgres.Options{})
			var trouble *store.SystemError
			if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "s3cret") ||
				(errors.As(err, &trouble) && trouble.Passing) != one.passing {
				t.Errorf("%v; want one with %q, that passes by itself: %v", err, one.want, one.passing)
			}
		})
	}
}
