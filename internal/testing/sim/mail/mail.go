// Package simmail is an SMTP server for tests that keeps the mail that it receives. It supports STARTTLS, AUTH PLAIN
// and scripted faults.
package simmail

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// Mail is one that the server took.
type Mail struct {
	From string
	To   []string
	Data string // headers and body as they came
	TLS  bool
	User string // who signed in
}

// Fault is what goes wrong at a command: MAIL, RCPT, DATA, AUTH, or "." for the end of a mail.
type Fault struct {
	At     string
	Answer string // such as "451 try later"; empty: the connection is cut
	// Take has the server take the mail although it answers so, or not at all.
	Take bool
}

// Server is a running mail server.
type Server struct {
	listener net.Listener
	cert     tls.Certificate
	pool     *x509.CertPool
	password string

	mu     sync.Mutex
	mails  []Mail
	faults []Fault
	change chan struct{} // closed at each change
	tries  int
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// New starts a server on the loopback address. Whoever signs in has to know the password; an empty one asks nobody.
func New(password string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, password: password, change: make(chan struct{}), conns: map[net.Conn]bool{}}
	if err := s.makeCertificate(); err != nil {
		return nil, err
	}
	s.wg.Go(s.serve)
	return s, nil
}

// makeCertificate makes the certificate of STARTTLS for 127.0.0.1, valid for a day.
func (s *Server) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	s.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	s.pool = x509.NewCertPool()
	s.pool.AddCert(leaf)
	return nil
}

// Port returns the port that the server listens on.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// TLSConfig returns what a client needs to trust the server.
func (s *Server) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: s.pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// Fail adds faults, each of which happens once, in their order.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Mails returns the mails that were taken.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Tries returns how many connections were made.
func (s *Server) Tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

// Wait returns the mails when there are n of them.
func (s *Server) Wait(ctx context.Context, n int) ([]Mail, error) {
	for {
		s.mu.Lock()
		list, change := append([]Mail(nil), s.mails...), s.change
		s.mu.Unlock()
		if len(list) >= n {
			return list, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return list, fmt.Errorf("wait for %d mails, there are %d: %w", n, len(list), ctx.Err())
		}
	}
}

// Close ends the server and all connections.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// serve accepts connections until the listener is closed.
func (s *Server) serve() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.tries++
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			(&session{server: s, conn: c, in: bufio.NewReader(c)}).run()
			_ = c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// fault returns the next fault if it is at a command.
func (s *Server) fault(at string) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 || s.faults[0].At != at {
		return Fault{}, false
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f, true
}

// keep stores an accepted mail and wakes those who wait for one.
func (s *Server) keep(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	close(s.change)
	s.change = make(chan struct{})
}

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	in     *bufio.Reader
	mail   Mail
}

func (c *session) say(line string) { _, _ = c.conn.Write([]byte(line + "\r\n")) }

// run answers the commands of a connection until it ends. A fault without an answer breaks it off, after which the
// client cannot know whether its mail was accepted.
func (c *session) run() {
	c.say("220 simmail ready")
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		word = strings.ToUpper(word)
		if f, is := c.server.fault(word); is {
			if f.Answer == "" {
				return
			}
			c.say(f.Answer)
			continue
		}
		if !c.handle(word, rest) {
			return
		}
	}
}

// handle carries out a command. It returns false where the connection ends.
func (c *session) handle(word, rest string) bool {
	switch word {
	case "EHLO":
		c.say("250-simmail")
		if !c.mail.TLS {
			c.say("250-STARTTLS")
		}
		c.say("250-8BITMIME")
		c.say("250 AUTH PLAIN")
	case "STARTTLS":
		c.say("220 go ahead")
		secured := tls.Server(c.conn, &tls.Config{Certificates: []tls.Certificate{c.server.cert},
			MinVersion: tls.VersionTLS12})
		if secured.Handshake() != nil {
			return false
		}
		c.conn, c.in, c.mail.TLS = secured, bufio.NewReader(secured), true
	case "AUTH":
		c.signIn(rest)
	case "MAIL":
		c.mail.From, c.mail.To = between(rest), nil
		c.say("250 sender ok")
	case "RCPT":
		c.mail.To = append(c.mail.To, between(rest))
		c.say("250 recipient ok")
	case "DATA":
		return c.take()
	case "QUIT":
		c.say("221 bye")
		return false
	default:
		c.say("250 ok")
	}
	return true
}

// signIn answers AUTH PLAIN (RFC 4616): authorization, user and password between NUL bytes.
func (c *session) signIn(rest string) {
	_, encoded, _ := strings.Cut(rest, " ")
	raw, _ := base64.StdEncoding.DecodeString(encoded) // what cannot be read is no password
	parts := strings.Split(string(raw), "\x00")
	if len(parts) != 3 || parts[2] != c.server.password {
		c.say("535 wrong user or password")
		return
	}
	c.mail.User = parts[1]
	c.say("235 signed in")
}

// take reads a mail to its end.
func (c *session) take() bool {
	c.say("354 send it")
	var data strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.TrimRight(line, "\r\n") == "." {
			break
		}
		data.WriteString(strings.TrimPrefix(line, "."))
	}
	m := c.mail
	m.Data = data.String()
	f, is := c.server.fault(".")
	if !is || f.Take {
		c.server.keep(m)
	}
	switch {
	case is && f.Answer == "":
		return false
	case is:
		c.say(f.Answer)
	default:
		c.say("250 taken")
	}
	return true
}

// between returns what stands between < and >.
func between(s string) string {
	_, s, _ = strings.Cut(s, "<")
	s, _, _ = strings.Cut(s, ">")
	return s
}
