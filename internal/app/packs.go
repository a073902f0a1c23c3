package app

import (
	"fmt"

	"ravenbot/internal/tool"
	"ravenbot/internal/tool/billing"
	"ravenbot/internal/tool/files"
)

// packs are the native tools that the configuration turns on, or that are always
// there and need nothing from outside.
func (a *App) packs() ([]tool.Tool, error) {
	var roots []files.Root
	for _, r := range a.o.Config.Tools.Files.Roots {
		roots = append(roots, files.Root{Name: r.Name, Path: r.Path, Write: r.Write})
	}
	list := files.Tools(roots)
	if file := a.o.Config.Tools.Billing.File; file != "" {
		tariff, err := billing.Load(file)
		if err != nil {
			return nil, fmt.Errorf("tools.billing.file: %w", err)
		}
		list = append(list, billing.Tools(tariff, a.o.Now)...)
	}
	return list, nil
}
