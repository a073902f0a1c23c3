package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/config"
	"ravenbot/internal/llm"
)

// ModelCheck is what asking a model one word gave.
type ModelCheck struct {
	Model string // its configured name and the provider's
	Err   error  // nil: it answered
}

// modelCheckTime bounds asking one model.
const modelCheckTime = 30 * time.Second

// CheckModels asks every model that is switched on for one word.
func CheckModels(ctx context.Context, c *config.Config) []ModelCheck {
	models, err := buildModels(c, nil)
	if err != nil {
		return []ModelCheck{{Model: "of the configuration", Err: err}}
	}
	var list []ModelCheck
	for _, name := range slices.Sorted(maps.Keys(models)) {
		list = append(list, ModelCheck{Model: name + " (" + models[name].ID() + ")", Err: askOnce(ctx, models[name].Model)})
	}
	return list
}

// CheckModel asks one model of the configuration for one word and gives its name with the
// provider's.
func CheckModel(ctx context.Context, c *config.Config, name string) (string, error) {
	models, err := buildModels(c, nil)
	if err != nil {
		return name, err
	}
	m, ok := models[name]
	if !ok {
		return name, fmt.Errorf("the model %q has no key", name)
	}
	return name + " (" + m.ID() + ")", askOnce(ctx, m.Model)
}

func askOnce(ctx context.Context, m llm.Model) error {
	ctx, cancel := context.WithTimeout(ctx, modelCheckTime)
	defer cancel()
	q := llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "Answer with the word ok."}}}}}
	for _, err := range m.Generate(ctx, q) {
		if err != nil {
			return err
		}
	}
	return nil
}
