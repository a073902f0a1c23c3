// Command mutate changes the code of packages in one place at a time and runs their tests: a change that no test
// notices is printed. It is for whoever writes tests, and not part of the bot.
//
//	go run ./cmd/mutate -n 40 ./internal/delivery ./internal/store/bolt
//
// It draws n changes of each package by chance. Changes that do not compile are replaced by others, and log
// statements are left alone. equivalent.txt names the changes that make no difference.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed equivalent.txt
var equivalentList string

func main() {
	n := flag.Int("n", 40, "changes of each package")
	seed := flag.Uint64("seed", 1, "of the choice")
	flag.Parse()
	if err := run(flag.Args(), *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries n changes of each package, and returns an error where one cannot be tested.
func run(packages []string, n int, seed uint64) error {
	if len(packages) == 0 {
		return errors.New("name packages, such as ./internal/delivery")
	}
	folder, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, pkg := range packages {
		began := time.Now()
		if out, err := test(pkg, "", 20*time.Minute); err != nil {
			return fmt.Errorf("the tests of %s fail as it is: %w\n%s", pkg, err, out)
		}
		r := runner{
			pkg:     pkg,
			folder:  folder,
			limit:   3*time.Since(began) + time.Minute,
			choices: rand.New(rand.NewPCG(seed, 0)),
		}
		if err := r.run(n); err != nil {
			return err
		}
	}
	return nil
}

// runner tries changes of one package.
type runner struct {
	pkg     string
	folder  string        // for changed files
	limit   time.Duration // of one run of the tests
	choices *rand.Rand
}

// run tries n changes of a package in an order that the seed decides, and prints those that no test
// notices.
func (r *runner) run(n int) error {
	all, err := findChanges(strings.TrimPrefix(r.pkg, "./"))
	if err != nil {
		return err
	}
	r.choices.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried, noticed, equivalent := 0, 0, 0
	for _, c := range all {
		if tried+equivalent == n {
			break
		}
		if isEquivalent(c) {
			equivalent++
			continue
		}
		switch compiles, isNoticed, err := r.try(c); {
		case err != nil:
			return err
		case !compiles:
			continue
		case isNoticed:
			noticed++
		default:
			fmt.Printf("not noticed: %s\n", c)
		}
		tried++
	}
	fmt.Printf("%s: %d of %d changes noticed (%.0f %%), %d more make no difference\n",
		r.pkg, noticed, tried, 100*float64(noticed)/float64(max(tried, 1)), equivalent)
	return nil
}

// try runs the tests on a changed file.
func (r *runner) try(c change) (compiles, isNoticed bool, err error) {
	file := filepath.Join(r.folder, "changed.go")
	if err := os.WriteFile(file, c.apply(), 0o600); err != nil {
		return false, false, err
	}
	original, err := filepath.Abs(c.file)
	if err != nil {
		return false, false, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	if err != nil {
		return false, false, err
	}
	list := filepath.Join(r.folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return false, false, err
	}
	out, err := test(r.pkg, list, r.limit)
	if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
		return false, false, nil
	}
	return true, err != nil, nil
}

// test runs the tests of a package, with files replaced as an overlay says, and returns what they print.
func test(pkg, overlay string, limit time.Duration) ([]byte, error) {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", limit.Round(time.Second).String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return exec.Command("go", append(args, pkg)...).CombinedOutput()
}

// isEquivalent reports whether a change is listed as one that makes no difference.
func isEquivalent(c change) bool {
	for line := range strings.Lines(equivalentList) {
		if listed, _, _ := strings.Cut(line, " # "); !strings.HasPrefix(line, "#") && listed == c.key() {
			return true
		}
	}
	return false
}

// change replaces a part of a file.
type change struct {
	file       string
	source     []byte
	begin, end int // of the part, in bytes
	by         string
}

// apply returns the source with the change, in new memory.
func (c change) apply() []byte {
	return append(append(bytes.Clone(c.source[:c.begin]), c.by...), c.source[c.end:]...)
}

// line returns the whole line in which the change is, and its number.
func (c change) line() (text string, number int) {
	begin := bytes.LastIndexByte(c.source[:c.begin], '\n') + 1
	length := bytes.IndexByte(c.source[begin:], '\n')
	return strings.TrimSpace(string(c.source[begin : begin+length])), 1 + bytes.Count(c.source[:begin], []byte("\n"))
}

// key names the change in equivalent.txt, whatever its line is.
func (c change) key() string {
	text, _ := c.line()
	return fmt.Sprintf("%s: %s: %s => %s", c.file, text, firstLine(string(c.source[c.begin:c.end])),
		cmp.Or(c.by, "nothing"))
}

// String returns the change for people, with the line that it is in.
func (c change) String() string {
	_, number := c.line()
	return fmt.Sprintf("%s (line %d)", c.key(), number)
}

// firstLine returns a text up to its first line end.
func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}
