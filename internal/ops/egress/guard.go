package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// guardedTripper checks the URL of every hop; the dialer behind it checks the address that the hop really leads to.
type guardedTripper struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guardedTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkURL(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // the RoundTripper contract requires it; the refusal is the error to report
		}
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// checkURL returns an error for addresses that are never fetched.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: scheme %q; only http and https can be fetched", ErrURL, u.Scheme)
	case u.User != nil:
		return ErrUserinfo
	case u.Hostname() == "":
		return fmt.Errorf("%w: it names no host", ErrURL)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		if strings.Contains(host, "%") {
			return fmt.Errorf("%w: the address has a zone", ErrURL)
		}
		return nil
	}
	// Resolvers differ on 127.1, 0x7f000001, 2130706433 and 0177.0.0.1; none of
	// them is how a public host is written.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || isDigits(last) || strings.HasPrefix(last, "0x") {
		return fmt.Errorf("%w: %q is neither a host name nor a plain address", ErrURL, host)
	}
	return nil
}

// isDigits reports whether a text has nothing but ASCII digits; an empty one does.
func isDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// guard dials, and refuses addresses that are neither public nor allowed.
type guard struct {
	rules    []rule
	resolver Resolver
	dialer   net.Dialer
}

// dial connects to the first address of a host that accepts, and returns the error of the first address where none
// does. An address that is not allowed is an error that wraps ErrBlocked.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%w: port %q", ErrURL, portText)
	}
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	d := g.dialer
	d.Timeout = dialTimeout
	// The name is resolved here and the address checked in control, so both see the same answer.
	d.ControlContext = g.control(host, g.dialer.ControlContext)
	var firstErr error
	for _, addr := range addrs {
		conn, err := d.DialContext(ctx, network, netip.AddrPortFrom(addr, uint16(port)).String())
		if err == nil {
			return conn, nil
		}
		if firstErr == nil {
			firstErr = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

// resolve looks up a host. It returns at most four addresses, which bounds the time that dialling takes.
func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: no address", host)
	}
	return addrs[:min(len(addrs), 4)], nil
}

// control is the function by which a dialer lets a socket be looked at before it is connected.
type control func(ctx context.Context, network, address string, c syscall.RawConn) error

// control returns a function that runs between the creation of the socket and its connection: what it sees is the
// address that will be connected to. A check before dialling would miss DNS answers that change.
func (g *guard) control(host string, next control) control {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		dialled, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrBlocked, address)
		}
		if !g.allows(host, dialled) && !isPublic(dialled.Addr()) {
			return fmt.Errorf("%w: %s is at %s; an operator can allow it with allowPrivateHosts",
				ErrBlocked, host, dialled.Addr().Unmap())
		}
		if next != nil {
			return next(ctx, network, address, c)
		}
		return nil
	}
}

// allows reports whether the operator has allowed an address.
func (g *guard) allows(host string, dialled netip.AddrPort) bool {
	host = canonicalHost(host)
	for _, r := range g.rules {
		if r.matches(host, dialled) {
			return true
		}
	}
	return false
}

// rule is one entry of the allow list: a name or a prefix, and a port.
type rule struct {
	name   string
	prefix netip.Prefix
	port   uint16 // 0: any
}

// matches reports whether a rule allows a connection: by the name that was asked for, or by the address it leads to.
func (r rule) matches(host string, dialled netip.AddrPort) bool {
	if r.port != 0 && r.port != dialled.Port() {
		return false
	}
	if r.name != "" {
		return r.name == host
	}
	return r.prefix.Contains(dialled.Addr().Unmap())
}

// parseRules parses the allow list. The error names every entry that is wrong.
func parseRules(entries []string) ([]rule, error) {
	var rules []rule
	var faults error
	for _, entry := range entries {
		r, err := parseRule(strings.TrimSpace(entry))
		if err != nil {
			err = fmt.Errorf("allowed host %q: %w", entry, err)
			// errors.Join would put each fault on a line of its own, which a log line cannot hold.
			if faults != nil {
				err = fmt.Errorf("%w; %w", faults, err)
			}
			faults = err
			continue
		}
		rules = append(rules, r)
	}
	return rules, faults
}

// CheckAllowedHost returns an error where an entry of Options.AllowPrivateHosts cannot be parsed.
func CheckAllowedHost(entry string) error {
	_, err := parseRule(entry)
	return err
}

// parseRule reads host, host:port, 10.0.0.0/8, 10.0.0.0/8:80, ::1, [::1]:80, fd00::/8 and [fd00::/8]:80.
func parseRule(entry string) (rule, error) {
	host, port, err := splitPort(entry)
	if err != nil {
		return rule{}, err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return rule{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	if strings.Contains(host, "/") {
		block, err := netip.ParsePrefix(host)
		if err != nil {
			return rule{}, errors.New("not a host, an address or a CIDR block; leave out scheme and path")
		}
		return rule{prefix: block.Masked(), port: port}, nil
	}
	name := canonicalHost(host)
	if !isHostName(name) {
		return rule{}, errors.New("not a host, an address or a CIDR block")
	}
	return rule{name: name, port: port}, nil
}

// splitPort separates the port of an entry. port is 0 where there is none; an IPv6 address with a port stands in
// brackets.
func splitPort(entry string) (host string, port uint16, err error) {
	host, text, found := entry, "", false
	switch {
	case strings.HasPrefix(entry, "["):
		var rest string
		host, rest, found = strings.Cut(entry[1:], "]")
		if !found {
			return "", 0, errors.New("a bracket is not closed")
		}
		text, found = strings.CutPrefix(rest, ":")
		if !found && rest != "" {
			return "", 0, fmt.Errorf("unexpected %q after the bracket", rest)
		}
	case strings.Count(entry, ":") == 1:
		host, text, found = strings.Cut(entry, ":")
	}
	if !found {
		return host, 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is not a port", text)
	}
	return host, uint16(n), nil
}

// canonicalHost returns a host name in lower case and without the dot of the root.
func canonicalHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// isHostName reports whether a name can be one of a host (RFC 1123, with underscores, which some networks use), and is
// not an address in disguise.
func isHostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.IndexFunc(label, isNotNameRune) >= 0 {
			return false
		}
	}
	return !isDigits(name[strings.LastIndexByte(name, '.')+1:])
}

// isNotNameRune reports whether a character cannot be in a host name in lower case.
func isNotNameRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
