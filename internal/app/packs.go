package app

import (
	"fmt"

	"ravenbot/internal/config"
	"ravenbot/internal/tool"
	"ravenbot/internal/tool/billing"
	"ravenbot/internal/tool/files"
	"ravenbot/internal/tool/memory"
)

// packs are the native tools that the configuration turns on, or that are always
// there and need nothing from outside.
func (a *App) packs(c *config.Config) ([]tool.Tool, error) {
	var roots []files.Root
	for _, r := range c.Tools.Files.Roots {
		roots = append(roots, files.Root{Name: r.Name, Path: r.Path, Write: r.Write})
	}
	list := append(files.Tools(roots), a.memory().Tools()...)
	if file := c.Tools.Billing.File; file != "" {
		tariff, err := billing.Load(file)
		if err != nil {
			return nil, fmt.Errorf("tools.billing.file: %w", err)
		}
		list = append(list, billing.Tools(tariff, a.o.Now)...)
	}
	return list, nil
}

// memory is the pack of what people want remembered.
func (a *App) memory() *memory.Pack {
	return memory.New(memory.Options{Store: a.store, Now: a.o.Now, Log: a.o.Log, Manages: manages})
}
