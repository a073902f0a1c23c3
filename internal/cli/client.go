package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ravenbot/internal/ops/config"
)

// errNoDaemon is returned when no daemon answers at the configured address.
var errNoDaemon = errors.New("no ravenbot is running here")

// client calls the HTTP API of the running daemon, or that of a bot in this process (local_api.go). It may be used
// concurrently.
type client struct {
	// base is scheme and address, without a slash at the end.
	base  string
	token string
	http  *http.Client
}

// requestTimeout is longer than the 30 minutes that the daemon takes for an answer at most.
const requestTimeout = 31 * time.Minute

// findDaemon returns a client of the running daemon of a configuration. It returns errNoDaemon when none answers
// /healthz within two seconds, and also where no admin token is known: a daemon of this configuration would have made
// one.
func findDaemon(ctx context.Context, cfg *config.Config) (*client, error) {
	token, err := cfg.FindAdminToken()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoDaemon
	}
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(cfg.HTTP.Listen)
	if err != nil {
		return nil, err
	}
	// A daemon that listens on every address is reached over loopback.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c := &client{"http://" + net.JoinHostPort(host, port), token.Reveal(), &http.Client{Timeout: requestTimeout}}
	// A daemon on this machine answers at once; a stopped one must not delay the command.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// Health needs no token, so a wrong token is reported by the request that needs it.
	res, err := c.do(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return nil, errNoDaemon
	}
	return c, res.Body.Close()
}

// foreignError is returned where the daemon at an address refuses the admin token of this configuration.
type foreignError struct{ base string }

// Error returns whose daemon it is.
func (e *foreignError) Error() string {
	return fmt.Sprintf("the ravenbot at %s refuses this configuration's admin token: it was started with another "+
		"configuration or RAVENBOT_ADMIN_TOKEN", e.base)
}

// findOwnDaemon is findDaemon where one that refuses the admin token, and so has another store, counts as none.
func findOwnDaemon(ctx context.Context, cfg *config.Config) (*client, error) {
	d, err := findDaemon(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var status struct{}
	if err := d.requestJSON(ctx, http.MethodGet, "/api/v1/status", nil, &status); err != nil {
		if _, ok := errors.AsType[*foreignError](err); ok {
			return nil, errNoDaemon
		}
	}
	return d, nil // what else it cannot do is for the request that needs it
}

// requireDaemon returns a client of the running daemon and its configuration, for commands that need it. It returns an
// error with the remedy where none runs.
func (c *invocation) requireDaemon(ctx context.Context) (*client, *config.Config, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	d, err := findDaemon(ctx, cfg)
	if errors.Is(err, errNoDaemon) {
		err = fmt.Errorf("%w; this command needs it: start it with ravenbot run. One that was started with RAVENBOT_STORE "+
			"or RAVENBOT_ADMIN_TOKEN is found if they are set here, too", err)
	}
	return d, cfg, err
}

// do makes a request, with body as JSON unless it is nil. A status of 300 or above becomes an error with the text of
// the API. The caller closes the body of the answer.
func (c *client) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(data)
	}
	return c.send(ctx, method, path, "application/json", in)
}

// send is do with a body of any media type.
func (c *client) send(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", kind)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	// The text of the API says how to send a token, which does not help here.
	if res.StatusCode == http.StatusUnauthorized {
		return nil, &foreignError{c.base}
	}
	if err := parseAPIError(raw); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the daemon answered with status %d", res.StatusCode)
}

// checkReady returns an error that names what keeps the daemon from being ready. query is that of /readyz.
func (c *client) checkReady(ctx context.Context, query string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz"+query, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	var ready struct {
		Platforms []struct {
			Name      string
			Connected bool
			Detail    string
		}
		Store string
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&ready) // where it says nothing, the status has to do
	var reasons []string
	if ready.Store != "" {
		reasons = append(reasons, ready.Store)
	}
	for _, p := range ready.Platforms {
		if !p.Connected {
			reasons = append(reasons, strings.TrimSuffix(p.Name+" is not connected: "+p.Detail, ": "))
		}
	}
	if len(reasons) == 0 {
		return fmt.Errorf("it is not ready (status %d)", res.StatusCode)
	}
	return fmt.Errorf("it is not ready: %s", strings.Join(reasons, "; "))
}

// parseAPIError returns the error that the API sent as JSON, with its hint for people who typed a command, or nil when
// raw holds none.
func parseAPIError(raw []byte) error {
	var t struct {
		Error struct{ Message, CommandHint string }
	}
	if json.Unmarshal(raw, &t) != nil || t.Error.Message == "" {
		return nil
	}
	return errors.New(strings.TrimSuffix(t.Error.Message+"; "+t.Error.CommandHint, "; "))
}

// maxAnswer is the largest answer of the daemon that is read, in bytes.
const maxAnswer = 64 << 20

// requestJSON makes a request with body, which may be nil, and reads the answer into out, which may not.
func (c *client) requestJSON(ctx context.Context, method, path string, body, out any) error {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
}

// requestList returns all items of a list of the API, page by page, and a list without items rather than nil. path has
// no query.
func requestList[T any](ctx context.Context, c *client, path string) ([]T, error) {
	items := []T{}
	for cursor := ""; ; {
		var page struct {
			Items []T
			Next  string
		}
		query := url.Values{"limit": {"1000"}, "cursor": {cursor}}
		if err := c.requestJSON(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if cursor = page.Next; cursor == "" {
			return items, nil
		}
	}
}
