package oauth

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Methods of client authentication in OAuth's registry (RFC 7591, 2; OpenID Connect Core, 9).
const (
	none      = "none"
	basic     = "client_secret_basic"
	post      = "client_secret_post"
	assertion = "private_key_jwt"
)

const clientName = "ravenbot"

// clientFor returns the bot's client at an authorization server: the configured client, the client of the metadata
// document, or a client that it registers once. The error explains what to configure if registration is impossible.
// After an error of the store the returned client is valid until a restart.
func (s *session) clientFor(ctx context.Context, p *target, scopes []string) (client, error) {
	b := s.b
	switch {
	case s.e.ClientID != "":
		return client{ID: s.e.ClientID, Secret: s.e.ClientSecret, Method: s.authMethod(p.authServer)}, nil
	case p.documents && b.o.MetadataURL != "":
		return client{ID: b.o.MetadataURL, Method: none}, nil
	case p.register == "":
		return client{}, fmt.Errorf("the authorization server %.200s does not register clients by itself: "+
			"register the bot there, with the redirect address %s, and configure its client id",
			p.issuer, b.o.RedirectURL)
	}
	key := clientKey(s.e.Name, p.issuer, b.o.RedirectURL)
	var known client
	// One registration for each redirect address: a client may return only to its own.
	if b.load(key, &known) && known.ID != "" && (known.Expires.IsZero() || b.o.Now().Before(known.Expires)) {
		return known, nil
	}
	c, err := s.register(ctx, p, scopes)
	if err != nil {
		return client{}, err
	}
	return c, b.save(key, c)
}

func (s *session) authMethod(a authServer) string {
	switch {
	case s.e.PrivateKey != "":
		return assertion
	case s.e.ClientSecret == "":
		return none
	case len(a.methods) > 0 && !slices.Contains(a.methods, basic) && slices.Contains(a.methods, post):
		return post
	}
	return basic
}

// register creates a client by dynamic registration (RFC 7591). The error contains the server's message.
func (s *session) register(ctx context.Context, p *target, scopes []string) (client, error) {
	wanted := basic // the default (RFC 8414, 2)
	// The last supported method of these counts.
	for _, m := range []string{post, none, basic} {
		if slices.Contains(p.methods, m) {
			wanted = m
		}
	}
	about := s.b.clientMetadata()
	about["token_endpoint_auth_method"] = wanted
	if len(scopes) > 0 {
		about["scope"] = strings.Join(scopes, " ")
	}
	body, _ := json.Marshal(about) // cannot fail for texts and lists of texts
	header := http.Header{"Content-Type": {"application/json"}}
	status, d, err := s.fetchJSON(ctx, http.MethodPost, p.register, header, string(body))
	if err != nil {
		return client{}, fmt.Errorf("register a client: %w", err)
	}
	c := client{ID: d.text("client_id"), Secret: d.text("client_secret"), Method: d.text("token_endpoint_auth_method")}
	if status/100 != 2 || c.ID == "" {
		return client{}, fmt.Errorf("the authorization server %.200s did not register the bot: %w",
			p.issuer, readRefusal(status, d, nil))
	}
	c.Method = cmp.Or(c.Method, wanted)
	// Without a secret the client is public, whatever method the server names.
	if c.Secret == "" {
		c.Method = none
	}
	if expires := decodeField[int64](d, "client_secret_expires_at"); expires > 0 {
		c.Expires = time.Unix(expires, 0)
	}
	return c, nil
}

// clientMetadata returns the description of the bot for registrations and the metadata document.
func (b *Broker) clientMetadata() map[string]any {
	return map[string]any{
		"client_name":                clientName,
		"redirect_uris":              []string{b.o.RedirectURL},
		"grant_types":                []string{AuthorizationCode, "refresh_token"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": none,
		"application_type":           applicationType(b.o.RedirectURL),
	}
}

// applicationType returns "native" for a client on a person's machine and "web" for one on a server (OpenID Connect
// Registration, 2). Some servers allow loopback addresses only for native clients.
func applicationType(redirect string) string {
	if u, err := url.Parse(redirect); err == nil {
		if addr, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && addr.IsLoopback() {
			return "native"
		}
	}
	return "web"
}

// authenticate adds the client's credentials to the form r or the header of a token request. audience is the issuer,
// for signed assertions. It fails for an unknown method, and for a key that cannot sign.
func (s *session) authenticate(r url.Values, header http.Header, c client, audience string) error {
	switch c.Method {
	case basic:
		// RFC 6749, 2.3.1: both parts are form-encoded first.
		pair := url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case post:
		r.Set("client_id", c.ID)
		r.Set("client_secret", c.Secret)
	case assertion:
		signed, err := s.signAssertion(c, audience)
		if err != nil {
			return err
		}
		r.Set("client_id", c.ID)
		r.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		r.Set("client_assertion", signed)
	case none:
		r.Set("client_id", c.ID)
	default:
		return fmt.Errorf("the bot does not support the authentication method %.100q of the authorization server", c.Method)
	}
	return nil
}

// signAssertion returns a signed statement about the client (RFC 7523), valid for a minute.
func (s *session) signAssertion(c client, audience string) (string, error) {
	// Errors must not contain parts of the key.
	block, _ := pem.Decode([]byte(s.e.PrivateKey))
	if block == nil {
		return "", errors.New("the private key of the client is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", errors.New("the private key of the client is not in PKCS #8")
	}
	name := ""
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			name = "ES256"
		}
	case *rsa.PrivateKey:
		name = "RS256"
	}
	if name == "" {
		return "", errors.New("the private key of the client is neither EC on P-256 nor RSA")
	}
	now := s.b.o.Now()
	part := func(v any) string {
		data, _ := json.Marshal(v) // cannot fail for texts and numbers
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(map[string]string{"alg": name, "typ": "JWT"}) + "." + part(map[string]any{"iss": c.ID, "sub": c.ID,
		"aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()})
	signature, err := sign(key, []byte(text))
	if err != nil {
		return "", errors.New("the private key of the client cannot sign")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// sign returns a JSON Web Signature (RFC 7518, 3.3 and 3.4). The key is an *rsa.PrivateKey or an *ecdsa.PrivateKey on
// P-256.
func sign(key any, text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	if k, ok := key.(*rsa.PrivateKey); ok {
		return rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, digest[:])
	}
	r, s, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), digest[:])
	if err != nil {
		return nil, err
	}
	// Two numbers of fixed length; Go's own encoding is ASN.1.
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), nil
}
