package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"syscall"
)

// Reason returns in words, for people, why a request got no answer; empty: the error is none of the connection. It
// names no address: errors of the network name those inside of it.
func Reason(err error) string {
	var lookup *net.DNSError
	var certificate *CertificateError
	switch {
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "there is no such host"
	case errors.As(err, &lookup):
		return "the name of its host could not be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "its server refuses the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the network of its server cannot be reached"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "the certificate of its server is from an unknown authority"
	case errors.As(err, new(x509.HostnameError)):
		return "the certificate of its server is for another name"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "its server does not speak TLS"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its server closed the connection"
	case errors.As(err, new(net.Error)), errors.As(err, new(*url.Error)):
		return "the connection failed"
	}
	return ""
}
