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

// errInputEnded is returned when the input ends before a question was answered.
var errInputEnded = errors.New("the input ended")

// unusableError is an answer that cannot be used, with what to do about it.
type unusableError struct{ reason, remedy string }

// Error returns reason and remedy in one line. askThrice prints them on two.
func (e *unusableError) Error() string { return e.reason + ": " + e.remedy }

// unusablef returns an unusableError.
func unusablef(remedy, format string, args ...any) error {
	return &unusableError{fmt.Sprintf(format, args...), remedy}
}

// asker asks questions on a terminal, or reads the answers from a pipe, one line each. It never prints what
// was typed as a secret.
type asker struct {
	ctx            context.Context
	lines          *bufio.Reader
	terminal       *os.File // nil when the answers come from a pipe
	out, err       io.Writer
	acceptDefaults bool     // ask nothing; every answer is the default
	secrets        []string // typed so far; masked in all output
}

// newAsker returns an asker on the streams of a command. It reads 1 MiB of answers at most, and its input ends when ctx
// does.
func newAsker(ctx context.Context, c *invocation, acceptDefaults bool) asker {
	a := asker{
		ctx:            ctx,
		out:            c.Out,
		err:            c.Err,
		acceptDefaults: acceptDefaults,
		lines:          bufio.NewReader(io.LimitReader(interruptibleReader{ctx, c.In}, 1<<20)),
	}
	// Only a terminal can hide what is typed; a pipe must not be treated as one.
	if isTerminal(c.In) {
		a.terminal = c.In.(*os.File)
	}
	return a
}

// say prints a line for the person, without the secrets that were typed.
func (a *asker) say(format string, args ...any) {
	fmt.Fprintln(a.out, a.maskSecrets(fmt.Sprintf(format, args...)))
}

// sayTrying announces a call that may take some seconds.
func (a *asker) sayTrying(whom string) { a.say("asking %s …", whom) }

// maskSecrets replaces the secrets that were typed so far.
func (a *asker) maskSecrets(text string) string {
	for _, s := range a.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// askThrice calls ask up to three times, as long as it returns an unusableError, and prints each of those. Any other
// error, such as errInputEnded, ends it at once. With --yes it calls ask once, since the same default would come again.
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
			break // the default would be the same again
		}
	}
	return fmt.Errorf("%s: no answer could be used; nothing was written", what)
}

// ask returns the answer to a question, without the blanks around it, or the default when the answer is empty. Without
// a default the answer may be "".
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

// askSecret returns a key or token, or "" for none. It shows neither what is typed nor the value that is set.
// It returns an unusableError for text that cannot be a key.
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
	// Shorter text is a typing error, and masking it would hit ordinary words.
	if len(secret) >= 8 {
		a.secrets = append(a.secrets, secret)
	}
	// Pasted keys often bring quotes or a line break along; HTTP headers would refuse those later.
	isForeign := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\`, r) }
	if strings.ContainsFunc(secret, isForeign) {
		return "", unusablef("copy it again, without quotes or blanks", "a key or token has only letters, digits and signs")
	}
	return secret, nil
}

// confirm asks for a yes. Everything else is a no.
func (a *asker) confirm(question string) (bool, error) {
	if a.acceptDefaults {
		return true, nil
	}
	answer, err := a.readLine(question + " [y/N]: ")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), err
}

// readLine asks a question and returns one line of the answer, or errInputEnded.
func (a *asker) readLine(question string) (string, error) {
	if a.acceptDefaults {
		return "", nil
	}
	fmt.Fprint(a.out, question)
	text, err := a.lines.ReadString('\n')
	if a.terminal == nil {
		fmt.Fprintln(a.out) // a pipe does not echo the line break
	}
	switch {
	case a.ctx.Err() != nil:
		return "", a.ctx.Err()
	// A last line without a line break still counts as an answer.
	case errors.Is(err, io.EOF) && text == "":
		return "", errInputEnded
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// disableEcho keeps the terminal from showing what is typed until restore is called. Where stty is missing,
// the typed text stays visible.
func (a *asker) disableEcho() (restore func()) {
	if a.terminal == nil || a.acceptDefaults || a.stty("-echo") != nil {
		return func() {}
	}
	return func() {
		_ = a.stty("echo") // there is no other way to restore it
		fmt.Fprintln(a.out)
	}
}

// stty changes how the terminal behaves, with the program of that name. It returns an error where there is none, as on
// Windows.
func (a *asker) stty(mode string) error {
	// Without the cancellation: the echo must come back after Ctrl-C, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stty", mode)
	cmd.Stdin = a.terminal
	return cmd.Run()
}
