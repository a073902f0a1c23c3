package websearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	attempts       = 2
	attemptTimeout = 12 * time.Second
	firstPause     = 500 * time.Millisecond
	// maxPause is the longest time that a provider's Retry-After is waited for.
	maxPause = 5 * time.Second
)

// failure is a sentence for people and models. It holds neither the key nor an address, which may hold one.
type failure struct {
	words      string
	retry      bool
	retryAfter time.Duration
}

func (f *failure) Error() string { return f.words }

// search asks the provider, once more where it was busy or could not be reached.
func (s *searcher) search(ctx context.Context, query string) ([]hit, error) {
	pause := firstPause
	for try := 1; ; try++ {
		hits, err := s.attempt(ctx, query)
		var f *failure
		if err == nil || !errors.As(err, &f) || !f.retry || try == attempts || f.retryAfter > maxPause {
			return hits, err
		}
		timer := time.NewTimer(max(pause, f.retryAfter))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// attempt asks the provider once.
func (s *searcher) attempt(ctx context.Context, query string) ([]hit, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	name := s.provider.name
	req, err := s.provider.request(ctx, query)
	if err != nil {
		return nil, &failure{words: "The search could not be made: tools.search.baseURL is not an address."}
	}
	res, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, &failure{words: name + " did not answer in time.", retry: true}
		}
		return nil, &failure{words: name + " could not be reached.", retry: true}
	}
	defer func() { _ = res.Body.Close() }() // what was read counts
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, &failure{words: "The answer of " + name + " broke off.", retry: true}
	case res.StatusCode != http.StatusOK:
		return nil, s.statusFailure(res)
	case len(body) > maxBody:
		return nil, &failure{words: fmt.Sprintf("The answer of %s is larger than %d MiB.", name, maxBody>>20)}
	}
	hits, err := s.provider.parse(bytes.TrimSpace(body))
	if err != nil {
		return nil, &failure{words: "The answer of " + name + " could not be read. Is tools.search.baseURL right?"}
	}
	return cleanHits(hits), nil
}

// statusFailure returns what a status means, and what to do.
func (s *searcher) statusFailure(res *http.Response) error {
	name, status := s.provider.name, res.StatusCode
	switch {
	case status == http.StatusForbidden && s.provider.forbidden != "":
		return &failure{words: s.provider.forbidden}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &failure{words: name + " does not accept the key; the bot's operator can change tools.search.apiKey."}
	case status == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &failure{words: name + " takes no more searches for now; try again later.", retry: true,
			retryAfter: time.Duration(seconds) * time.Second}
	}
	return &failure{words: fmt.Sprintf("%s answered with status %d.", name, status), retry: status >= 500}
}
