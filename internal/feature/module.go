package feature

import (
	"context"
	"encoding/json"
	"errors"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// Module is one ability of the bot with everything that it adds, and one line of internal/app. Menus, help,
// docs/commands.md, tools, checks of imports, work in the background and reloading come from the list of modules.
// The module of a service that is nil only declares its features.
type Module struct {
	Features []Feature
	// Tools returns the module's native tools. It is called once.
	Tools func() []tool.Tool
	// Shared are the parts that keep stored records in memory.
	Shared []store.Shared
	// Checks are of stored items, by kind: imports leave out an item that its check refuses.
	Checks map[string]Check
	// Tasks run as long as the bot does.
	Tasks []Task
	// Purge deletes the data derived from a deleted message. It is nil if there is none.
	Purge func(ctx context.Context, message string) error
	// About returns a line for the help on who answers a message. One module has it.
	About func(m chat.Message) string
}

// Check returns an error if a stored item or setting could not be used. Its name is unique within its kind.
type Check = func(name string, value json.RawMessage) error

// Task runs until its context ends.
type Task struct {
	Name string
	Run  func(ctx context.Context)
	// Outlives keeps the task running until delivery has ended: answers that are finished during shutdown may need it.
	Outlives bool
	// Leads restricts the task to one of the processes that share a store.
	Leads bool
	// Daemon restricts the task to the daemon: the command line does without it.
	Daemon bool
}

// allFeatures returns the features of modules in their order.
func allFeatures(modules []Module) []Feature {
	var list []Feature
	for _, m := range modules {
		list = append(list, m.Features...)
	}
	return list
}

// Tools returns the native tools of all modules.
func (r *Registry) Tools() []tool.Tool { return r.tools }

// Shared returns the parts of all modules that keep stored records in memory.
func (r *Registry) Shared() []store.Shared {
	var list []store.Shared
	for _, m := range r.modules {
		list = append(list, m.Shared...)
	}
	return list
}

// Check checks a stored item or setting. Without a check for its kind it returns nil.
func (r *Registry) Check(kind, name string, value json.RawMessage) error {
	for _, m := range r.modules {
		if check := m.Checks[kind]; check != nil {
			return check(name, value)
		}
	}
	return nil
}

// Tasks returns the tasks of all modules.
func (r *Registry) Tasks() []Task {
	var list []Task
	for _, m := range r.modules {
		list = append(list, m.Tasks...)
	}
	return list
}

// Purge deletes what the modules made of a message that was deleted.
func (r *Registry) Purge(ctx context.Context, message string) error {
	var all error
	for _, m := range r.modules {
		if m.Purge != nil {
			all = errors.Join(all, m.Purge(ctx, message))
		}
	}
	return all
}
