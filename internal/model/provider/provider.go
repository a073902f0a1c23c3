// Package provider makes the language models of a configuration. It is the one place that
// names the providers; a new one is a package in internal/core/llm and a case in build. It
// promises that a model without its key is left out, so that its fallback answers, and that
// each model has one circuit, whoever asks it.
package provider

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/anthropic"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/model/compat"
	"ravenbot/internal/model/gemini"
	"ravenbot/internal/model/offline"
	"ravenbot/internal/model/openai"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/agent"
)

// Models returns the models of a configuration that have what they need, by their
// configured names. A model that old, the models of oldConfig, has with the same
// settings is used again, with what is known of its failures; old may be nil.
func Models(
	c *config.Config,
	oldConfig *config.Config,
	old map[string]agent.Model,
	log *slog.Logger,
) (map[string]agent.Model, error) {
	models := map[string]agent.Model{}
	for name, m := range c.Models {
		if m.KeyMissing {
			continue
		}
		if old != nil && reflect.DeepEqual(oldConfig.Models[name], m) {
			models[name] = old[name]
			continue
		}
		model, err := build(name, m, log)
		if err != nil {
			return nil, fmt.Errorf("models.%s: %w", name, err)
		}
		// The offline model cannot fail.
		if m.Provider != "offline" {
			model = compat.New(model, compat.Options{Name: name, Tools: m.Tools, Log: log})
			model = breaker.New(model, breaker.Options{Name: name, FirstToken: m.FirstTokenTimeout.Std(), Log: log})
		}
		models[name] = agent.Model{Model: model, Timeout: m.Timeout.Std()}
	}
	return models, nil
}

// WithCircuits returns the models that have a circuit, by name.
func WithCircuits(models map[string]agent.Model) (list []*breaker.Model) {
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if m, ok := models[name].Model.(*breaker.Model); ok {
			list = append(list, m)
		}
	}
	return list
}

// Refusal is a tool that the endpoint of a model refuses. The model is asked without it.
type Refusal struct {
	Model string `json:"model"` // its configured name
	compat.Refusal
}

// Refusals returns the tools that endpoints have refused so far.
func Refusals(models map[string]agent.Model) []Refusal {
	var list []Refusal
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if m, ok := llm.As[*compat.Model](models[name].Model); ok {
			for _, r := range m.Refusals() {
				list = append(list, Refusal{name, r})
			}
		}
	}
	return list
}

// build returns the model of an entry, without limits or a circuit around it. It makes no request.
func build(name string, m config.Model, log *slog.Logger) (llm.Model, error) {
	switch m.Provider {
	case "gemini":
		o := gemini.Options{
			APIKey:          m.APIKey.Reveal(),
			Model:           m.Model,
			BaseURL:         m.BaseURL.Reveal(),
			Temperature:     m.Temperature,
			MaxOutputTokens: m.MaxOutputTokens,
			Body:            m.Body.Reveal(),
			Log:             log,
		}
		if m.Vertex != (config.Vertex{}) {
			o.Vertex = &gemini.Vertex{Project: m.Vertex.Project, Location: m.Vertex.Location}
		}
		return gemini.New(o)
	case "anthropic":
		return anthropic.New(anthropic.Options{
			APIKey:          m.APIKey.Reveal(),
			Model:           m.Model,
			BaseURL:         m.BaseURL.Reveal(),
			Temperature:     m.Temperature,
			MaxOutputTokens: m.MaxOutputTokens,
			Body:            m.Body.Reveal(),
			Log:             log,
		}), nil
	case "openai":
		return openai.New(openai.Options{
			Name:            name,
			APIKey:          m.APIKey.Reveal(),
			Model:           m.Model,
			BaseURL:         m.BaseURL.Reveal(),
			Temperature:     m.Temperature,
			MaxOutputTokens: m.MaxOutputTokens,
			Body:            m.Body.Reveal(),
			Log:             log,
		}), nil
	default:
		return offline.Model{}, nil
	}
}

// checkTimeout bounds asking one model.
const checkTimeout = 30 * time.Second

// Check is the result of asking a model for one word.
type Check struct {
	Model string // its configured name and the provider's
	Err   error  // nil: it answered
}

// CheckAll asks every model of a configuration that is switched on for one word.
func CheckAll(ctx context.Context, c *config.Config) []Check {
	models, err := Models(c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return []Check{{Model: "of the configuration", Err: err}}
	}
	var list []Check
	for _, name := range slices.Sorted(maps.Keys(models)) {
		list = append(list, Check{Model: name + " (" + models[name].ID() + ")", Err: askForOneWord(ctx, models[name].Model)})
	}
	return list
}

// CheckOne asks one model of a configuration for one word.
func CheckOne(ctx context.Context, c *config.Config, name string) Check {
	models, err := Models(c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return Check{Model: name, Err: err}
	}
	m, ok := models[name]
	if !ok {
		return Check{Model: name, Err: fmt.Errorf("the model %q has no key", name)}
	}
	return Check{Model: name + " (" + m.ID() + ")", Err: askForOneWord(ctx, m.Model)}
}

// askForOneWord makes the smallest request that shows whether a model answers, within checkTimeout.
func askForOneWord(ctx context.Context, m llm.Model) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	q := llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "Answer with the word ok."}}}}}
	for _, err := range m.Generate(ctx, q) {
		if err != nil {
			return err
		}
	}
	return nil
}
