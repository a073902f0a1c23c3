package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/config"
	"ravenbot/internal/egress"
	"ravenbot/internal/elicit"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/oauth"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool"
)

// Where sign-ins come back to, and where the bot tells authorization servers what it
// is.
const (
	callbackPath = "/oauth/callback"
	clientPath   = "/oauth/client.json"
)

// keySuffix is added to the store's path for the file with the key that what is kept
// of sign-ins is encrypted with.
const keySuffix = ".key"

// buildSignIn makes what signs the bot in to MCP servers.
func (a *App) buildSignIn(out *egress.Client) error {
	key, err := oauth.LoadKey(a.o.Config.Store.Reveal() + keySuffix)
	if err != nil {
		return err
	}
	base := returnBase(a.conf())
	o := oauth.Options{Egress: out, Store: signIns{a.store}, Key: key, RedirectURL: base + callbackPath, NotifyConsent: a.wantsConsent,
		OnGranted: func(server, _ string) { _ = a.mcp.Start(server) }, Now: a.o.Now, Log: a.o.Log} // one that was stopped meanwhile stays so
	if strings.HasPrefix(base, "https://") {
		o.MetadataURL = base + clientPath
	}
	a.signIn, err = oauth.New(o)
	return err
}

// returnBase is where browsers find the bot.
func returnBase(c *config.Config) string {
	if url := c.HTTP.PublicURL.Reveal(); url != "" {
		return strings.TrimRight(url, "/")
	}
	host, port, err := net.SplitHostPort(c.HTTP.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// signIns keeps what is known of sign-ins, encrypted by whoever hands it over.
type signIns struct{ db *bolt.DB }

func (s signIns) Load(key string) ([]byte, error) {
	raw, err := s.db.LoadTools(context.Background(), "oauth/"+key)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	var data []byte
	err = json.Unmarshal(raw, &data)
	return data, err
}

func (s signIns) Save(key string, data []byte) error {
	raw, err := json.Marshal(data) // nil becomes null, which stands for nothing
	if err != nil {
		return err
	}
	return s.db.SaveTools(context.Background(), "oauth/"+key, raw)
}

// authorize gives what carries requests to a server that may ask for a sign-in.
func (a *App) authorize(c mcp.Config, next http.RoundTripper) http.RoundTripper {
	e := a.entry(c.Name)
	return a.signIn.Transport(oauth.Entry{Name: c.Name, URL: c.URL, User: c.User, ClientID: e.OAuth.ClientID, ClientSecret: e.OAuth.ClientSecret.Reveal(),
		PrivateKey: e.OAuth.PrivateKey.Reveal(), Issuer: e.OAuth.Issuer, Scopes: e.OAuth.Scopes, Grant: e.OAuth.Grant, Allow: e.Egress.AllowPrivateHosts}, next)
}

// entry gives what is configured of a server, in the file or through the API.
func (a *App) entry(server string) config.MCPServer {
	if e, ok := a.conf().MCPServers[server]; ok {
		return e
	}
	if e, ok := a.added.Load(server); ok {
		return e.(config.MCPServer)
	}
	return config.MCPServer{}
}

// awaited gives the consent that a server waits for.
func (a *App) awaited(c mcp.Config) *mcp.Consent {
	w, ok := a.signIn.Waiting(c.Name, c.User)
	if !ok {
		return nil
	}
	return &mcp.Consent{URL: w.URL, User: w.User, Until: w.Expires}
}

// callers remembers where people were who had a server called that each signs in to
// for themselves, so that the link can go there.
func (a *App) noteCaller(c tool.Caller, n tool.Named) {
	if server := n.Tool.Spec().Server; c.User.ID != "" && a.entry(server).OAuth.PerUser {
		at := c.Conversation
		a.callers.Store(at.Platform+":"+at.Workspace+"/"+c.User.ID, c)
	}
}

// wantsConsent brings the link to the person concerned: the operator finds it on the
// page of servers, a user where they had the server called.
func (a *App) wantsConsent(ctx context.Context, c oauth.Consent) error {
	if c.User == "" {
		a.o.Log.Warn("mcp server wants the operator to sign in", "server", c.Server, "remedy", "open the page Servers of the dashboard: "+returnBase(a.conf())+"/servers")
		return nil
	}
	known, ok := a.callers.Load(c.User)
	if !ok {
		return fmt.Errorf("it is not known where %s is", c.User)
	}
	caller := known.(tool.Caller)
	caller.Report = nil
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	q := elicit.Question{Server: c.Server, URL: c.URL, Message: "Sign in, so that I may use it for you."}
	if err := a.questions.Offer(ctx, caller, q, c.Expires); err != nil && !errors.Is(err, elicit.ErrNobody) {
		return err
	}
	return nil
}
