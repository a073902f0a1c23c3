package app

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"ravenbot/internal/admin"
	"ravenbot/internal/knowledge"
	"ravenbot/internal/pdftext"
	"ravenbot/internal/tool"
)

// filesSuffix is what the folder of uploaded files has behind the store's name.
const filesSuffix = ".files"

func (a *App) readPDF(ctx context.Context, data []byte) ([]string, error) {
	if a.o.ReadPDF != nil {
		return a.o.ReadPDF(ctx, data)
	}
	return pdftext.Pages(data)
}

// knowledgeTools are there where an agent has files.
func (a *App) knowledgeTools() []tool.Tool {
	for _, m := range a.setup.Load().agents {
		if m.knows() {
			return []tool.Tool{a.knowledge.SearchTool(a.knowledgeOf)}
		}
	}
	return nil
}

// knowledgeOf gives the files that an agent's entry names.
func (a *App) knowledgeOf(agent string) []string { return a.setup.Load().agents[agent].Knowledge }

// agentFiles shows the files of agents to the HTTP side, and keeps those sent to it.
type agentFiles struct{ a *App }

// List gives the files of an agent.
func (f agentFiles) List(agent string) ([]admin.FileView, error) {
	if _, err := agents(f).Get(agent); err != nil {
		return nil, err
	}
	list := []admin.FileView{}
	for _, file := range f.a.knowledge.Files(context.Background(), agent, f.a.knowledgeOf(agent)) {
		list = append(list, fileView(file))
	}
	return list, nil
}

func fileView(f knowledge.File) admin.FileView {
	v := admin.FileView{Name: f.Name, Bytes: f.Bytes, Hash: f.Hash, Changed: f.Changed, Source: "config", Passages: f.Passages}
	if f.Uploaded {
		v.Source = fromAPI
	}
	if f.Err != nil {
		v.Error = f.Err.Error()
	}
	return v
}

// uploaded finds a file that was sent.
func (f agentFiles) uploaded(agent, name string) (admin.FileView, error) {
	list, err := f.List(agent)
	if err != nil {
		return admin.FileView{}, err
	}
	for _, v := range list {
		if v.Name == name && v.Source == fromAPI {
			return v, nil
		}
	}
	return admin.FileView{}, admin.ErrNoFile
}

// Put keeps a file of an agent, also of one of the configuration's.
func (f agentFiles) Put(ctx context.Context, agent, name string, data []byte) (admin.FileView, error) {
	if _, err := agents(f).Get(agent); err != nil {
		return admin.FileView{}, err
	}
	if err := f.a.knowledge.Put(ctx, agent, name, data); err != nil {
		return admin.FileView{}, err
	}
	return f.uploaded(agent, name)
}

// Open gives a file as it was sent.
func (f agentFiles) Open(agent, name string) (io.ReadCloser, admin.FileView, error) {
	v, err := f.uploaded(agent, name)
	if err != nil {
		return nil, v, err
	}
	file, err := f.a.knowledge.Open(agent, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = admin.ErrNoFile
	}
	if err != nil {
		return nil, v, err
	}
	return file, v, nil
}

// Delete removes a file that was sent.
func (f agentFiles) Delete(_ context.Context, agent, name string) error {
	if _, err := agents(f).Get(agent); err != nil {
		return err
	}
	err := f.a.knowledge.Delete(agent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return admin.ErrNoFile
	}
	return err
}
