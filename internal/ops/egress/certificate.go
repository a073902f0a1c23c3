package egress

import (
	"crypto/x509"
	"errors"
	"time"
)

// CertificateError is the error of a request to a server whose certificate is not valid at the time that the clock of
// this machine shows: it has expired, or the clock is wrong.
type CertificateError struct {
	From, Until time.Time // of the certificate
	Clock       time.Time // what the clock shows
}

// Error names the times, from which one sees which of the two is wrong.
func (e *CertificateError) Error() string {
	text := "the certificate of the server was valid until "
	at, remedy := e.Until, ": if that is right, the server needs a new certificate, else set the clock"
	if e.Clock.Before(e.From) {
		text, at, remedy = "the certificate of the server is valid from ", e.From, ": set the clock"
	}
	return text + at.UTC().Format(time.RFC3339) + ", and the clock of this machine says " +
		e.Clock.UTC().Format(time.RFC3339) + remedy
}

// ExplainCertificate returns a *CertificateError in the place of an error of that reason, and others as they are.
func ExplainCertificate(err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err
	}
	return &CertificateError{From: invalid.Cert.NotBefore, Until: invalid.Cert.NotAfter, Clock: time.Now()}
}
