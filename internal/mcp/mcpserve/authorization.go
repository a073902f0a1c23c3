package mcpserve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
)

// Paths of the sign-in of other MCP hosts (MCP authorization 2025-06-18: OAuth 2.1 with PKCE, RFC 8414, 9728, 7591).
const (
	AuthorizePath = "/mcp/authorize"
	registerPath  = "/mcp/register"
	tokenPath     = "/mcp/token"
	// ResourceMetadataPath is where the metadata of /mcp are; a 401 names it.
	ResourceMetadataPath = "/.well-known/oauth-protected-resource/mcp"
)

// Limits of what anybody may send.
const (
	maxRegistration = 16 << 10 // bytes
	maxRedirects    = 8        // addresses of a client
	maxRedirectSize = 512      // bytes of one
	maxClientID     = 6 << 10  // bytes
	codeLife        = 5 * time.Minute
)

// clientPrefix begins the IDs of clients. The rest is what the client registered: the bot keeps nothing of it, since
// anybody may register, and what counts is what the operator sees and PKCE proves.
const clientPrefix = "rvnclient_"

// client is a registered client, as its ID holds it: the names of the keys are short because the ID is part of
// addresses.
type client struct {
	Name      string   `json:"n"`
	Redirects []string `json:"r"`
}

// AuthorizationRequest is what a client asks the operator for.
type AuthorizationRequest struct {
	Client   string // its name, as the client says
	Redirect string // where the answer goes
	state    string
	proof    string // the PKCE challenge
	clientID string
	resource string // what the access is for; empty: the client did not say
}

// RedirectHost returns the host that gets the access, or the scheme of a program on this machine.
func (q AuthorizationRequest) RedirectHost() string {
	u, _ := url.Parse(q.Redirect) // it was checked
	if u.Host == "" {
		return u.Scheme + ":"
	}
	return u.Host
}

// RedirectOrigin returns what a content policy has to allow as the target of a form.
func (q AuthorizationRequest) RedirectOrigin() string {
	u, _ := url.Parse(q.Redirect)
	if u.Host == "" || !isWeb(u) {
		return u.Scheme + ":"
	}
	return u.Scheme + "://" + u.Host
}

// Access is what the operator grants.
type Access struct {
	Tools []string      // names or patterns
	Life  time.Duration // of the token
}

// grantedCode is an access that a client has not fetched yet.
type grantedCode struct {
	AuthorizationRequest
	Access
	expires time.Time
}

// Authorization lets other MCP hosts get a token by a sign-in of the operator. It is safe for concurrent use.
type Authorization struct {
	tokens *Tokens
	owner  string
	now    func() time.Time

	// mu guards codes, which are kept in memory alone: after a restart the operator is asked again.
	mu    sync.Mutex
	codes map[string]grantedCode
}

// NewAuthorization returns an Authorization that makes tokens of an owner.
func NewAuthorization(tokens *Tokens, owner string, now func() time.Time) *Authorization {
	return &Authorization{tokens: tokens, owner: owner, now: now, codes: map[string]grantedCode{}}
}

// Handlers returns the handlers that anybody may call, by their paths. baseURL returns the address under which a
// request reaches the bot, without a slash at the end; it is the issuer.
func (a *Authorization) Handlers(baseURL func(*http.Request) string) map[string]http.Handler {
	resource := func(w http.ResponseWriter, r *http.Request) {
		writeOAuth(w, http.StatusOK, map[string]any{
			"resource":                 baseURL(r) + "/mcp",
			"authorization_servers":    []string{baseURL(r)},
			"bearer_methods_supported": []string{"header"},
			"resource_name":            "ravenbot",
		})
	}
	server := func(w http.ResponseWriter, r *http.Request) {
		writeOAuth(w, http.StatusOK, map[string]any{
			"issuer":                                         baseURL(r),
			"authorization_endpoint":                         baseURL(r) + AuthorizePath,
			"token_endpoint":                                 baseURL(r) + tokenPath,
			"registration_endpoint":                          baseURL(r) + registerPath,
			"response_types_supported":                       []string{"code"},
			"grant_types_supported":                          []string{"authorization_code"},
			"code_challenge_methods_supported":               []string{"S256"},
			"token_endpoint_auth_methods_supported":          []string{"none"},
			"authorization_response_iss_parameter_supported": true,
		})
	}
	return map[string]http.Handler{
		ResourceMetadataPath:                      only(http.MethodGet, resource),
		"/.well-known/oauth-protected-resource":   only(http.MethodGet, resource),
		"/.well-known/oauth-authorization-server": only(http.MethodGet, server),
		registerPath: only(http.MethodPost, a.register),
		tokenPath:    only(http.MethodPost, a.exchange),
	}
}

// only answers requests of one method.
func only(method string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			writeOAuthError(w, http.StatusMethodNotAllowed, "invalid_request", "this takes "+method)
			return
		}
		serve(w, r)
	})
}

// writeOAuth answers with JSON that nobody may cache, as RFC 6749 (5.1) wants of tokens.
func writeOAuth(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone when this fails
}

// writeOAuthError answers with an error in the form of RFC 6749 (5.2) and RFC 7591 (3.2.2).
func writeOAuthError(w http.ResponseWriter, status int, code, words string) {
	writeOAuth(w, status, map[string]string{"error": code, "error_description": words})
}

// register answers a dynamic registration (RFC 7591).
func (a *Authorization) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name       string   `json:"client_name"`
		Redirects  []string `json:"redirect_uris"`
		AuthMethod string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRegistration)).Decode(&asked); err != nil {
		writeOAuthError(w, http.StatusBadRequest, "invalid_client_metadata", "the body is no JSON object of at most 16 KiB")
		return
	}
	c := client{Name: nameOf(asked.Name), Redirects: asked.Redirects}
	if err := c.check(); err != nil {
		writeOAuthError(w, http.StatusBadRequest, "invalid_redirect_uri", err.Error())
		return
	}
	raw, _ := json.Marshal(c) // texts always can
	writeOAuth(w, http.StatusCreated, map[string]any{
		"client_id":                  clientPrefix + base64.RawURLEncoding.EncodeToString(raw),
		"client_id_issued_at":        a.now().Unix(),
		"client_name":                c.Name,
		"redirect_uris":              c.Redirects,
		"grant_types":                []string{"authorization_code"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": "none", // PKCE proves who fetches the token
	})
}

// maxClientName is how many characters of a client's name are used: names of tokens have at most 64.
const maxClientName = 32

// nameOf returns the name of a client as part of a token's name.
func nameOf(said string) string {
	name := strings.Map(func(r rune) rune {
		if tokenName().MatchString("x" + string(r) + "x") {
			return r
		}
		return -1
	}, said)
	runes := []rune(strings.Join(strings.Fields(name), " "))
	name = strings.TrimLeft(string(runes[:min(len(runes), maxClientName)]), " .-")
	if name = strings.TrimSpace(name); name == "" {
		return "MCP host"
	}
	return name
}

// hostSchemes are those of MCP hosts that have not named theirs after a domain, as RFC 8252 (7.1) wants it.
var hostSchemes = []string{"cursor", "vscode", "vscode-insiders", "windsurf"}

// plainHost matches a host as it may stand in a policy for browsers and be shown to people: names in other scripts look
// like others, and are to be written in punycode.
var plainHost = text.Pattern(`^[A-Za-z0-9.:\[\]_-]*$`)

// check returns what is wrong with the addresses of a client.
func (c client) check() error {
	if len(c.Redirects) == 0 || len(c.Redirects) > maxRedirects {
		return fmt.Errorf("redirect_uris has to name 1 to %d addresses", maxRedirects)
	}
	for _, address := range c.Redirects {
		u, err := url.Parse(address)
		switch {
		case err != nil, len(address) > maxRedirectSize, u.Fragment != "", u.User != nil, !plainHost().MatchString(u.Host),
			!isWeb(u) && !strings.Contains(u.Scheme, ".") && !slices.Contains(hostSchemes, u.Scheme):
			return fmt.Errorf("redirect_uris names an address that cannot be used: %.100q", address)
		case u.Scheme == "https" && u.Host == "", u.Scheme == "http" && !isLoopback(u.Hostname()):
			return fmt.Errorf("an answer goes to an https address or to a program on the same machine, not to %.100q", address)
		}
	}
	return nil
}

// isWeb reports whether an address is one of the web.
func isWeb(u *url.URL) bool { return u.Scheme == "https" || u.Scheme == "http" }

// isLoopback reports whether a host is this machine, by its address or as localhost.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readClient returns the client of an ID.
func readClient(id string) (client, bool) {
	var c client
	encoded, ours := strings.CutPrefix(id, clientPrefix)
	if !ours || len(id) > maxClientID {
		return c, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.check() != nil {
		return c, false
	}
	c.Name = nameOf(c.Name)
	return c, true
}

// allows reports whether an answer may go to an address. Programs on this machine choose their port anew (RFC 8252).
func (c client) allows(address string) bool {
	asked, err := url.Parse(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(registered string) bool {
		if registered == address {
			return true
		}
		u, err := url.Parse(registered)
		if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) || asked.Hostname() != u.Hostname() {
			return false
		}
		u.Host = asked.Host
		return u.String() == address
	})
}

// RequestError is returned for a request that cannot be granted. Where Redirect is not empty, the client is told there.
type RequestError struct {
	Reason   string
	Redirect string
}

func (e *RequestError) Error() string { return e.Reason }

// Read returns what a client asks for by the parameters of its request. The error is a *RequestError.
func (a *Authorization) Read(q url.Values, issuer string) (AuthorizationRequest, error) {
	request := AuthorizationRequest{
		Redirect: q.Get("redirect_uri"),
		state:    q.Get("state"),
		proof:    q.Get("code_challenge"),
		clientID: q.Get("client_id"),
		resource: q.Get("resource"),
	}
	c, ok := readClient(request.clientID)
	switch {
	case !ok:
		return request, &RequestError{Reason: "The program that sent you here is not registered; let it connect again."}
	case request.Redirect == "" && len(c.Redirects) == 1:
		request.Redirect = c.Redirects[0]
	}
	// An answer, also one that says what is wrong, goes nowhere but to a registered address.
	if !c.allows(request.Redirect) {
		return request, &RequestError{
			Reason: "The program has not registered the address that the access would be sent to.",
		}
	}
	request.Client = c.Name
	refuse := func(code, words string) (AuthorizationRequest, error) {
		return request, &RequestError{Reason: words, Redirect: request.answer(issuer, url.Values{
			"error": {code}, "error_description": {words},
		})}
	}
	switch {
	case q.Get("response_type") != "code":
		return refuse("unsupported_response_type", "response_type has to be code")
	case request.proof == "" || q.Get("code_challenge_method") != "S256":
		return refuse("invalid_request", "PKCE is required: code_challenge with code_challenge_method S256")
	case request.resource != "" && strings.TrimRight(request.resource, "/") != issuer+"/mcp":
		return refuse("invalid_target", "resource has to be "+issuer+"/mcp")
	}
	return request, nil
}

// answer returns where the browser goes with an answer to a request.
func (q AuthorizationRequest) answer(issuer string, values url.Values) string {
	u, _ := url.Parse(q.Redirect) // it was checked
	all := u.Query()
	for key, value := range values {
		all[key] = value
	}
	if q.state != "" {
		all.Set("state", q.state)
	}
	all.Set("iss", issuer)
	u.RawQuery = all.Encode()
	return u.String()
}

// Deny returns where the browser goes when the operator has said no.
func (a *Authorization) Deny(q AuthorizationRequest, issuer string) string {
	return q.answer(issuer, url.Values{"error": {"access_denied"}, "error_description": {"the operator said no"}})
}

// Approve returns where the browser goes when the operator has granted an access: with a code that the client exchanges
// for a token once, within codeLife. q must come from Read, and the operator must have been asked about it.
func (a *Authorization) Approve(q AuthorizationRequest, granted Access, issuer string) string {
	code := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	// Here, because codes that no client fetches are removed nowhere else.
	for old, g := range a.codes {
		if !a.now().Before(g.expires) {
			delete(a.codes, old)
		}
	}
	a.codes[code] = grantedCode{q, granted, a.now().Add(codeLife)}
	return q.answer(issuer, url.Values{"code": {code}})
}

// exchange gives a token for a code.
func (a *Authorization) exchange(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRegistration)
	if err := r.ParseForm(); err != nil {
		writeOAuthError(w, http.StatusBadRequest, "invalid_request", "the body must be a form of at most 16 KiB")
		return
	}
	if r.PostForm.Get("grant_type") != "authorization_code" {
		writeOAuthError(w, http.StatusBadRequest, "unsupported_grant_type", "grant_type has to be authorization_code")
		return
	}
	granted, ok := a.redeem(r.PostForm)
	if !ok {
		writeOAuthError(w, http.StatusBadRequest, "invalid_grant",
			"the code is wrong, was used or has expired, or is another client's; sign in again")
		return
	}
	secret, err := a.createToken(r.Context(), granted)
	if err != nil {
		writeOAuthError(w, http.StatusInternalServerError, "server_error", "the token could not be stored; sign in again")
		return
	}
	writeOAuth(w, http.StatusOK, map[string]any{
		"access_token": secret,
		"token_type":   "Bearer",
		"expires_in":   int(granted.Life.Seconds()),
	})
}

// redeem returns the access of a code. A code that was tried is gone, whether or not what came with it was right.
func (a *Authorization) redeem(form url.Values) (grantedCode, bool) {
	a.mu.Lock()
	g, ok := a.codes[form.Get("code")]
	delete(a.codes, form.Get("code"))
	a.mu.Unlock()
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	redirect := form.Get("redirect_uri")
	resource := form.Get("resource")
	return g, ok && a.now().Before(g.expires) && form.Get("client_id") == g.clientID &&
		(resource == "" || g.resource == "" || resource == g.resource) &&
		(redirect == "" || redirect == g.Redirect) && subtle.ConstantTimeCompare([]byte(proof), []byte(g.proof)) == 1
}

// createToken makes a token that is named after the client and the time, and returns its secret.
func (a *Authorization) createToken(ctx context.Context, g grantedCode) (string, error) {
	name := g.Client + " " + a.now().UTC().Format("2006-01-02 15.04")
	_, secret, err := a.tokens.Create(ctx, a.owner, name, g.Tools, g.Life, false)
	if errors.Is(err, ErrTokenExists) {
		_, secret, err = a.tokens.Create(ctx, a.owner, name+" "+text.RandomID(2), g.Tools, g.Life, false)
	}
	return secret, err
}
