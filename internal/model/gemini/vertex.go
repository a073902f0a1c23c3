package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"ravenbot/internal/core/llm"
)

// Vertex is a Google Cloud project and location. Requests carry a token of the application default credentials
// (https://cloud.google.com/docs/authentication/application-default-credentials).
type Vertex struct {
	Project  string // may be empty with an API key
	Location string // "global", "europe-west4", …

	mu       sync.Mutex
	tokens   oauth2.TokenSource // nil until credentials were found
	isPerson bool               // the credentials belong to a person
}

// url returns the address of the API (https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations, seen
// 2026-11).
func (v *Vertex) url() string {
	switch v.Location {
	case "", "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + v.Location + ".rep.googleapis.com"
	}
	return "https://" + v.Location + "-aiplatform.googleapis.com"
}

// path returns the path of a model. Models of other publishers have the form publishers/NAME/models/MODEL.
func (v *Vertex) path(model string) string {
	model = strings.TrimPrefix(model, "models/")
	if !strings.HasPrefix(model, "publishers/") {
		model = "publishers/google/models/" + model
	}
	if v.Project == "" {
		return "/" + model
	}
	location := cmp.Or(v.Location, "global")
	return "/projects/" + url.PathEscape(v.Project) + "/locations/" + url.PathEscape(location) + "/" + model
}

const tokenTimeout = 30 * time.Second

// authorize sets a token, which it gets and renews when needed. It takes tokenTimeout at most, because the library
// ignores the deadline of the request.
func (v *Vertex) authorize(ctx context.Context, h http.Header) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tokens == nil {
		// Tokens are renewed after this request, too.
		ctx := context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: tokenTimeout})
		found, err := google.FindDefaultCredentials(ctx, "https://www.googleapis.com/auth/cloud-platform")
		if err != nil {
			return explainTokenError(err)
		}
		v.tokens = found.TokenSource
		v.isPerson = v.Project != "" && strings.Contains(string(found.JSON), `"authorized_user"`)
	}
	token, err := v.tokens.Token()
	if err != nil {
		return explainTokenError(err)
	}
	token.SetAuthHeader(&http.Request{Header: h})
	if v.isPerson {
		h.Set("X-Goog-User-Project", v.Project) // the project that pays
	}
	return nil
}

// explainTokenError adds a remedy to an error of getting a token.
func explainTokenError(err error) error {
	out := &llm.Error{Kind: llm.Denied, Provider: "vertex", Err: fmt.Errorf("get a token of the application default "+
		"credentials: %w; run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS", err)}
	var refused *oauth2.RetrieveError
	var unreached *url.Error
	if errors.As(err, &unreached) || errors.As(err, &refused) && refused.Response.StatusCode >= 500 {
		out.Kind, out.Err = llm.Unavailable, fmt.Errorf("get a token of the application default credentials: %w", err)
	}
	return out
}
