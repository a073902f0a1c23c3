package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// refusedError is an OAuth error from a server (RFC 6749, 5.2). Its texts are printable and contain no secret of the
// request.
type refusedError struct {
	status int
	code   string // may be ""
	detail string
}

func (e refusedError) Error() string {
	text := fmt.Sprintf("HTTP %d %s", e.status, e.code)
	if e.detail != "" {
		text += " (" + e.detail + ")"
	}
	return strings.TrimSpace(text)
}

// readRefusal reads an OAuth error. It masks secrets.
func readRefusal(status int, d document, secrets []string) refusedError {
	detail := d.text("error_description")
	// Very short strings occur in ordinary words.
	for _, s := range secrets {
		if len(s) > 3 {
			detail = strings.ReplaceAll(detail, s, "***")
		}
	}
	return refusedError{status, printable(d.text("error")), printable(detail)}
}

// printable returns a text for one line of a log: visible ASCII, at most 200 bytes.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < 0x20 || c > 0x7e {
			return -1
		}
		return c
	}, s)
	return s[:min(len(s), 200)]
}

// requestToken requests a token. It continues, within requestTimeout, after ctx has ended, because losing a new refresh
// token would lose the consent.
func (s *session) requestToken(
	ctx context.Context,
	endpoint, issuer string,
	who client,
	form url.Values,
) (record, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if err := s.authenticate(form, header, who, issuer); err != nil {
		return record{}, err
	}
	status, d, err := s.fetchJSON(context.WithoutCancel(ctx), http.MethodPost, endpoint, header, form.Encode())
	if err != nil {
		return record{}, fmt.Errorf("ask for a token: %w", err)
	}
	if status != http.StatusOK || d == nil {
		secrets := []string{who.Secret}
		for _, name := range []string{"code", "code_verifier", "refresh_token", "client_assertion"} {
			secrets = append(secrets, form.Get(name))
		}
		return record{}, fmt.Errorf("ask %s for a token: %w", endpoint, readRefusal(status, d, secrets))
	}
	return s.readToken(d)
}

// readToken reads the answer of a token endpoint. Granted is nil if the server does not name scopes. It fails for other
// types than bearer, and for characters that no header may have.
func (s *session) readToken(d document) (record, error) {
	t := record{Access: d.text("access_token"), Refresh: d.text("refresh_token")}
	isPrintable := !strings.ContainsFunc(t.Access, func(c rune) bool { return c < 0x21 || c > 0x7e })
	switch {
	// A token with a line break could inject headers.
	case t.Access == "" || !isPrintable:
		return record{}, errors.New("the authorization server returned no token that can be sent")
	// Some servers omit the type, although RFC 6749, 5.1, demands it.
	case d.text("token_type") != "" && !strings.EqualFold(d.text("token_type"), "bearer"):
		return record{}, fmt.Errorf("the authorization server returned a token of the type %q, not bearer",
			printable(d.text("token_type")))
	}
	if seconds := lifetime(d["expires_in"]); seconds > 0 {
		t.Expires = s.b.o.Now().Add(time.Duration(seconds) * time.Second)
	}
	if d["scope"] != nil {
		t.Granted = scopesOf(d.text("scope"))
	}
	return t, nil
}

// lifetime reads a number of seconds, which some servers send as text. It returns 0 for anything else.
func lifetime(raw json.RawMessage) int64 {
	const maxSeconds = 10 * 365 * 24 * 3600
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || seconds < 1 {
		return 0
	}
	return int64(min(seconds, maxSeconds))
}

// refresh renews the token, unless another process does; the session's lock is held. After an error the current record
// stays. If the server calls the refresh token invalid, the record is deleted, so that the next refusal leads to a new
// sign-in.
func (s *session) refresh(ctx context.Context) error {
	release, renewed, err := s.claimRenewal(ctx)
	defer release()
	if err != nil || renewed {
		return err
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {s.rec.Refresh}}
	if s.rec.Resource != "" {
		form.Set("resource", s.rec.Resource)
	}
	t, err := s.requestToken(ctx, s.rec.Endpoint, s.rec.Issuer, s.rec.Client, form)
	var refused refusedError
	if errors.As(err, &refused) && s.isRefreshTokenInvalid(refused) {
		if s.takeRenewed() { // another process did not wait
			return nil
		}
		s.forgetClient(refused.code, s.rec.Issuer)
		s.b.o.Log.Info("failed to renew an mcp token", "server", s.e.Name, "error", refused)
		// The next sign-in prefers this issuer and these scopes.
		s.rec = record{Issuer: s.rec.Issuer, Requested: s.rec.Requested}
		s.saveRecord()
	}
	if err != nil {
		return s.signInError(err)
	}
	// A server without rotation of refresh tokens omits it (RFC 6749, 6).
	t.Refresh = cmp.Or(t.Refresh, s.rec.Refresh)
	if t.Granted == nil {
		t.Granted = s.rec.Granted
	}
	s.rec.Access, s.rec.Refresh, s.rec.Expires, s.rec.Granted = t.Access, t.Refresh, t.Expires, t.Granted
	s.saveRecord()
	return nil
}

// isRefreshTokenInvalid reports whether the refresh token is invalid, and not just the request. A wrong secret in the
// configuration must not cost the token.
func (s *session) isRefreshTokenInvalid(e refusedError) bool {
	if e.code == "invalid_client" && s.e.ClientID != "" {
		return false
	}
	return e.code != "" && (e.status == http.StatusBadRequest || e.status == http.StatusUnauthorized)
}

// requestOwnToken gets a token for the bot's own credentials (RFC 6749, 4.4).
func (s *session) requestOwnToken(ctx context.Context, at *target, scopes []string) error {
	if s.e.ClientID == "" {
		return errors.New("the grant client_credentials needs a configured client")
	}
	who := client{ID: s.e.ClientID, Secret: s.e.ClientSecret, Method: s.authMethod(at.authServer)}
	form := url.Values{"grant_type": {ClientCredentials}, "resource": {at.resource}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	t, err := s.requestToken(ctx, at.token, at.issuer, who, form)
	if err != nil {
		return err
	}
	s.useToken(at, who, scopes, t)
	return nil
}

// forgetClient deletes a registration that the authorization server no longer knows, so that the next sign-in registers
// again.
func (s *session) forgetClient(code, issuer string) {
	if code != "invalid_client" && code != "unauthorized_client" {
		return
	}
	if err := s.b.save(clientKey(s.e.Name, issuer, s.b.o.RedirectURL), nil); err != nil {
		s.b.o.Log.Warn("failed to delete an mcp client registration", "server", s.e.Name, "error", err)
	}
}
