package app

import (
	"fmt"

	"ravenbot/internal/tool"
	"ravenbot/internal/tool/billing"
)

// packs are the native tools that the configuration turns on, or that are always
// there and need nothing from outside.
func (a *App) packs() ([]tool.Tool, error) {
	var list []tool.Tool
	if file := a.o.Config.Tools.Billing.File; file != "" {
		tariff, err := billing.Load(file)
		if err != nil {
			return nil, fmt.Errorf("tools.billing.file: %w", err)
		}
		list = append(list, billing.Tools(tariff, a.o.Now)...)
	}
	return list, nil
}
