package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// target describes where to get a token for a server. discover has checked it.
type target struct {
	resource string   // the server's identifier, as it publishes it
	scopes   []string // supported scopes, if known
	authServer
}

type authServer struct {
	issuer    string
	authorize string
	token     string
	register  string   // "" without dynamic registration
	methods   []string // of client authentication at the token endpoint
	scopes    []string // supported scopes, if known
	documents bool     // a client may be the URL of its metadata document
	signs     bool     // its authorization responses name it (RFC 9207)
	s256      bool     // it supports PKCE with S256
}

// document is a JSON object with exact keys; encoding/json would accept any case.
type document map[string]json.RawMessage

func (d document) text(key string) string { return decodeField[string](d, key) }

func (d document) list(key string) []string { return decodeField[[]string](d, key) }

// decodeField decodes a field. It returns the zero value for a field of another type.
func decodeField[T any](d document, key string) (v T) {
	var none T
	if json.Unmarshal(d[key], &v) != nil {
		return none
	}
	return v
}

// discover finds where to get the token that a refusal asks for. It fails if the server's metadata describe another
// resource, name no issuer or another one than the configuration, or cannot be read.
func (s *session) discover(ctx context.Context, c *challenge) (*target, error) {
	resource, found, err := s.fetchResourceMetadata(ctx, c)
	if err != nil {
		return nil, err
	}
	if !found {
		return s.guessTarget(ctx, c)
	}
	p := &target{resource: resource.text("resource"), scopes: resource.list("scopes_supported")}
	if err := s.checkResource(p.resource); err != nil {
		return nil, err
	}
	issuers, err := s.chooseIssuers(resource.list("authorization_servers"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, issuer := range issuers {
		if p.authServer, err = s.fetchServerMetadata(ctx, issuer); err == nil {
			return p, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

const maxIssuers = 3

// chooseIssuers returns the authorization servers to try. An issuer that is configured, or can renew the current token,
// is the only one; otherwise the last one used comes first. A configured client belongs to one issuer, and its secret
// must not go to another, so that only one is tried.
func (s *session) chooseIssuers(named []string) ([]string, error) {
	known := slices.IndexFunc(named, func(issuer string) bool {
		return isSameIssuer(issuer, cmp.Or(s.e.Issuer, s.rec.Issuer))
	})
	switch {
	case len(named) == 0:
		return nil, errors.New("the server's metadata names no authorization server")
	case s.e.Issuer != "" && known < 0:
		return nil, fmt.Errorf("the server names the authorization server %.200q, not the configured one", named[0])
	case known >= 0 && (s.e.Issuer != "" || s.rec.Refresh != ""):
		return named[known : known+1], nil
	case known > 0:
		named = slices.Insert(slices.Delete(slices.Clone(named), known, known+1), 0, named[known])
	}
	if s.e.ClientID != "" {
		return named[:1], nil
	}
	return named[:min(len(named), maxIssuers)], nil
}

// isSameIssuer reports whether two issuers are equal, except for a slash after a host without a path (RFC 3986, 6.2.3),
// about which resource metadata and server metadata often disagree.
func isSameIssuer(a, b string) bool { return trimRoot(a) == trimRoot(b) }

// trimRoot removes a slash that is the whole path of an issuer.
func trimRoot(issuer string) string {
	_, rest, _ := strings.Cut(issuer, "://")
	if strings.IndexAny(rest, "/?#") == len(rest)-1 {
		return strings.TrimSuffix(issuer, "/")
	}
	return issuer
}

// checkResource checks that metadata describe the configured server (RFC 9728, 3.3): its URL or a parent of its path.
// Otherwise a server could make the bot get tokens for another one.
func (s *session) checkResource(resource string) error {
	at, err := url.Parse(resource)
	if err == nil && at.Scheme == s.at.Scheme && strings.EqualFold(at.Host, s.at.Host) && at.Fragment == "" &&
		at.User == nil {
		base := strings.TrimSuffix(at.EscapedPath(), "/")
		rest, ok := strings.CutPrefix(strings.TrimSuffix(s.at.EscapedPath(), "/"), base)
		// "/mcp" is a parent of "/mcp/a" but not of "/mcpx".
		if ok && (rest == "" || rest[0] == '/') && (at.RawQuery == "" || at.RawQuery == s.at.RawQuery) {
			return nil
		}
	}
	return fmt.Errorf("the server's metadata are for %.200q, which is not its url: sign-in stopped", resource)
}

// fetchResourceMetadata fetches the metadata of the protected resource (RFC 9728) from the address in the refusal, or
// from the well-known places. It returns false if there are none.
func (s *session) fetchResourceMetadata(ctx context.Context, c *challenge) (document, bool, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	var places []string
	if c.metadata != "" {
		places = append(places, c.metadata)
	}
	// RFC 9728, 3.1: the well-known part is between the host and the path.
	if path := strings.TrimSuffix(s.at.EscapedPath(), "/"); path != "" {
		places = append(places, s.origin()+wellKnown+path)
	}
	places = append(places, s.origin()+wellKnown)
	var errs []error
	for _, at := range slices.Compact(places) {
		d, err := s.fetchDocument(ctx, at)
		if err == nil {
			return d, true, nil
		}
		if ctx.Err() != nil {
			return nil, false, err
		}
		// An unreadable document is not a missing one: the server may name other addresses than the guessed ones.
		if !errors.As(err, new(missingError)) {
			errs = append(errs, err)
		}
	}
	return nil, false, errors.Join(errs...)
}

func (s *session) origin() string { return s.at.Scheme + "://" + s.at.Host }

// guessTarget follows MCP version 2025-03-26 for servers without metadata: the authorization server is at their origin.
// If it has no metadata either, its endpoints have default names.
func (s *session) guessTarget(ctx context.Context, c *challenge) (*target, error) {
	// OAuth does not help with other schemes.
	if !c.bearer {
		return nil, errors.New("the server requires unknown credentials: set them in headers")
	}
	root := s.origin()
	if s.e.Issuer != "" && !isSameIssuer(s.e.Issuer, root) {
		return nil, errors.New("the server does not name the authorization server that is configured")
	}
	p := &target{resource: s.resourceID()}
	d, err := s.fetchDocument(ctx, root+"/.well-known/oauth-authorization-server")
	switch {
	case errors.As(err, new(missingError)):
		p.authServer = authServer{
			issuer:    root,
			authorize: root + "/authorize",
			token:     root + "/token",
			register:  root + "/register",
			s256:      true,
		}
		return p, nil
	case err != nil:
		return nil, err
	// With the slash, because https://example.com.org is another host than https://example.com.
	case !strings.HasPrefix(d.text("issuer")+"/", root+"/"):
		return nil, fmt.Errorf("the metadata of the authorization server at %s name the issuer %.200q",
			root, d.text("issuer"))
	}
	p.authServer, err = s.readMetadata(d)
	return p, err
}

func (s *session) resourceID() string {
	at := *s.at
	at.Fragment, at.User = "", nil
	return at.String()
}

// fetchServerMetadata fetches the metadata of an authorization server (RFC 8414, OpenID Connect Discovery).
func (s *session) fetchServerMetadata(ctx context.Context, issuer string) (authServer, error) {
	at, err := s.checkURL(issuer)
	if err != nil {
		return authServer{}, fmt.Errorf("authorization server: %w", err)
	}
	root, path := at.Scheme+"://"+at.Host, strings.TrimSuffix(at.EscapedPath(), "/")
	places := []string{
		root + "/.well-known/oauth-authorization-server" + path,
		root + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		places = append(places, root+path+"/.well-known/openid-configuration")
	}
	var errs []error
	for _, at := range places {
		d, err := s.fetchDocument(ctx, at)
		if err != nil {
			errs = append(errs, err)
			if errors.As(err, new(*url.Error)) { // the host does not answer at other places either
				break
			}
			continue
		}
		// RFC 8414, 3.3: another issuer may be an attempt to mix up two servers.
		if !isSameIssuer(d.text("issuer"), issuer) {
			return authServer{}, fmt.Errorf("the metadata of the authorization server %s name another issuer, %.200q: "+
				"sign-in stopped", issuer, d.text("issuer"))
		}
		return s.readMetadata(d)
	}
	return authServer{}, fmt.Errorf("the authorization server %s does not describe itself: %w",
		issuer, errors.Join(errs...))
}

// readMetadata reads the metadata of an authorization server and checks its addresses.
func (s *session) readMetadata(d document) (authServer, error) {
	a := authServer{
		issuer:    d.text("issuer"),
		authorize: d.text("authorization_endpoint"),
		token:     d.text("token_endpoint"),
		register:  d.text("registration_endpoint"),
		methods:   d.list("token_endpoint_auth_methods_supported"),
		scopes:    d.list("scopes_supported"),
		documents: decodeField[bool](d, "client_id_metadata_document_supported"),
		signs:     decodeField[bool](d, "authorization_response_iss_parameter_supported"),
		s256:      slices.Contains(d.list("code_challenge_methods_supported"), "S256"),
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint"} {
		if at := d.text(name); at != "" {
			if _, err := s.checkURL(at); err != nil {
				return a, fmt.Errorf("authorization server %.200s: %s: %w", a.issuer, name, err)
			}
		}
	}
	if a.token == "" {
		return a, fmt.Errorf("the authorization server %.200s names no token endpoint", a.issuer)
	}
	return a, nil
}

// checkURL parses an address from a server. It must be https, or http if the server itself is configured with http.
func (s *session) checkURL(raw string) (*url.URL, error) {
	at, err := url.Parse(raw)
	switch {
	case err != nil || at.Host == "" || at.User != nil || at.Fragment != "":
		return nil, fmt.Errorf("%.200q is not an address that can be used", raw)
	case at.Scheme != "https" && (at.Scheme != "http" || s.at.Scheme != "http"):
		return nil, fmt.Errorf("%.200q is not https", raw)
	}
	return at, nil
}

// missingError means that there is no document at an address.
type missingError struct{ at string }

func (e missingError) Error() string { return e.at + " has none" }

// fetchDocument fetches a JSON object. It returns a missingError if there is none.
func (s *session) fetchDocument(ctx context.Context, at string) (document, error) {
	if _, err := s.checkURL(at); err != nil {
		return nil, fmt.Errorf("get metadata: %w", err)
	}
	status, d, err := s.fetchJSON(ctx, http.MethodGet, at, http.Header{}, "")
	switch {
	case err != nil:
		return nil, fmt.Errorf("get metadata: %w", err)
	case status >= 400 && status < 500 || status == http.StatusOK && d == nil:
		return nil, missingError{at} // many servers answer every request with a page
	case status != http.StatusOK:
		return nil, fmt.Errorf("get metadata: %s answered HTTP %d", at, status)
	}
	return d, nil
}

// fetchJSON makes one request through package egress, within requestTimeout. The document is nil if the answer is not a
// JSON object. Any status is valid. The error may contain the address, but no header or body of the request.
func (s *session) fetchJSON(ctx context.Context, method, at string, h http.Header, body string) (int, document, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = h
	client := s.egress.HTTPClient()
	// A redirect to another origin could carry a secret there.
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet || len(via) > 3 || next.URL.Scheme != r.URL.Scheme || next.URL.Host != r.URL.Host {
			return http.ErrUseLastResponse
		}
		return nil
	}
	// Idle connections would only cost memory, because requests are rare.
	defer s.egress.CloseIdle()
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "ravenbot")
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxDocument))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	var d document
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); strings.HasSuffix(kind, "json") {
		_ = json.Unmarshal(answer, &d) // the document stays nil for other JSON
	}
	return resp.StatusCode, d, nil
}
