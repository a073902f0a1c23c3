package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errInputEnded is the end of the input before a question was answered.
var errInputEnded = errors.New("the input ended")

// unusableError is an answer that cannot be used, and what to do about it.
type unusableError struct{ reason, remedy string }

func (e *unusableError) Error() string { return e.reason + ": " + e.remedy }

func unusablef(remedy, format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...), remedy}
}

// asker asks questions on a terminal, or reads the answers from a pipe, a line each.
// What was typed as a secret is in nothing that it prints.
type asker struct {
	ctx            context.Context
	lines          *bufio.Reader
	terminal       *os.File // nil: the answers come from elsewhere
	out, err       io.Writer
	acceptDefaults bool     // every answer is the one offered
	secrets        []string // told so far
}

func newAsker(ctx context.Context, c *invocation, acceptDefaults bool) asker {
	a := asker{
		ctx:            ctx,
		out:            c.Out,
		err:            c.Err,
		acceptDefaults: acceptDefaults,
		lines:          bufio.NewReader(io.LimitReader(interruptibleReader{ctx, c.In}, 1<<20)),
	}
	if f, ok := c.In.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			a.terminal = f
		}
	}
	return a
}

func (a *asker) say(format string, args ...any) {
	fmt.Fprintln(a.out, a.maskSecrets(fmt.Sprintf(format, args...)))
}

func (a *asker) sayTrying(whom string) { a.say("asking %s …", whom) }

func (a *asker) maskSecrets(text string) string {
	for _, s := range a.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// askThrice repeats questions whose answers cannot be used, and gives up after three.
func (a *asker) askThrice(what string, ask func() error) error {
	var unusable *unusableError
	for range 3 {
		err := ask()
		if !errors.As(err, &unusable) {
			return err
		}
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		fmt.Fprintf(a.err, "%s\n  what to do: %s\n", a.maskSecrets(unusable.reason), a.maskSecrets(unusable.remedy))
		if a.acceptDefaults {
			break // the answer would be the same
		}
	}
	return fmt.Errorf("%s: no answer could be used; nothing was written", what)
}

// ask gives the answer to a question, or what was offered.
func (a *asker) ask(question, offered string) (string, error) {
	if offered != "" {
		question += " [" + offered + "]"
	}
	answer, err := a.readLine(question + ": ")
	if err == nil && answer == "" {
		answer = offered
	}
	return answer, err
}

// askSecret gives a key or token, or nothing where there is to be none. It does not
// show what is typed, nor the one that is set.
func (a *asker) askSecret(question, set string) (string, error) {
	offer := " [none]: "
	if set != "" {
		offer = " [the one that is set; - for none]: "
	}
	restore := a.disableEcho()
	secret, err := a.readLine(question + offer)
	restore()
	switch {
	case err != nil || secret == "-":
		return "", err
	case secret == "":
		secret = set
	}
	if secret == "" {
		return "", nil
	}
	if len(secret) >= 8 { // less is a slip of the hand, and stands in too many words
		a.secrets = append(a.secrets, secret)
	}
	isForeign := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\`, r) }
	if strings.ContainsFunc(secret, isForeign) {
		return "", unusablef("copy it again, without quotes or blanks", "a key or token has letters, digits and signs alone")
	}
	return secret, nil
}

// confirm asks for a yes; everything else is a no.
func (a *asker) confirm(question string) (bool, error) {
	if a.acceptDefaults {
		return true, nil
	}
	answer, err := a.readLine(question + " [y/N]: ")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), err
}

func (a *asker) readLine(question string) (string, error) {
	if a.acceptDefaults {
		return "", nil
	}
	fmt.Fprint(a.out, question)
	text, err := a.lines.ReadString('\n')
	if a.terminal == nil {
		fmt.Fprintln(a.out) // the answer is not to be seen
	}
	switch {
	case a.ctx.Err() != nil:
		return "", a.ctx.Err()
	case errors.Is(err, io.EOF) && text == "":
		return "", errInputEnded
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// disableEcho keeps the terminal from showing what is typed until restore is called. Where it
// cannot, what is typed is seen, as it is in any program there.
func (a *asker) disableEcho() (restore func()) {
	if a.terminal == nil || a.acceptDefaults || a.stty("-echo") != nil {
		return func() {}
	}
	return func() {
		_ = a.stty("echo") // nothing else is left to be tried
		fmt.Fprintln(a.out)
	}
}

func (a *asker) stty(mode string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stty", mode)
	cmd.Stdin = a.terminal
	return cmd.Run()
}
