package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

// A certificate that is not valid now is explained by what the clock says, and no other fault of one is.
func TestExplainCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	// check returns the error for a certificate that is trusted and valid from one time to another.
	check := func(from, until time.Time) error {
		t.Helper()
		raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from,
			NotAfter: until, IsCA: true, BasicConstraintsValid: true},
			&x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(certificate)
		_, err = certificate.Verify(x509.VerifyOptions{Roots: roots})
		return err
	}
	const day = 24 * time.Hour
	for want, err := range map[string]error{
		"is valid from " + now.Add(day).UTC().Format(time.RFC3339) + ", and the clock of this machine says " +
			now.UTC().Format(time.DateOnly): check(now.Add(day), now.Add(2*day)),
		"was valid until " + now.Add(-day).UTC().Format(time.RFC3339): check(now.Add(-2*day), now.Add(-day)),
	} {
		got := ExplainCertificate(fmt.Errorf("tls: %w", err))
		if !strings.Contains(got.Error(), want) {
			t.Errorf("%q, want %q", got, want)
		}
		var explained *CertificateError
		if err := classifyError(err, time.Second); !errors.As(err, &explained) {
			t.Errorf("a request fails with %v", err)
		}
	}
	other := errors.New("another")
	if got := ExplainCertificate(other); got != other {
		t.Errorf("another error is %v", got)
	}
}
