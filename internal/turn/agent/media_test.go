package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/resident"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
)

// withPictures returns a bench over a model whose questions bring a picture of 4 MiB, and counts how often that is fetched.
func withPictures(ts tools, p *resident.Pool, script func(n int, r llm.Request) []llm.Chunk) (b *bench, fetched *int) {
	fetched = new(int)
	b = engine(ts, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) { return script(n, r), nil }})
	b.options.FileMemory = p
	b.options.Files = files(func(context.Context, string, chat.File, int64) ([]byte, error) {
		*fetched++
		return []byte("picture"), nil
	})
	b.Engine = b.over()
	return b, fetched
}

func showsPicture() chat.Message {
	m := asks("1", "look")
	m.Files = []chat.File{{Name: "cat.png", Type: "image/png", Size: 4 << 20}}
	return m
}

func hasPicture(r llm.Request) bool { return countPictures(r) > 0 }

func countPictures(r llm.Request) (n int) {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Media != nil {
				n++
			}
		}
	}
	return n
}

// Pictures of many questions at a time would take more memory than there is: some wait until others are answered.
func TestAnswer_PicturesOfManyQuestions_WaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := resident.NewPool(40 << 20) // for two
		began := time.Now()
		times := make(chan time.Duration)
		for range 4 {
			b, _ := withPictures(nil, pool, func(_ int, r llm.Request) []llm.Chunk {
				time.Sleep(10 * time.Second)
				if !hasPicture(r) {
					t.Error("the model does not see the picture")
				}
				return llmtest.Says("a cat")
			})
			go func() {
				b.answer(t, t.Context(), one(showsPicture()))
				times <- time.Since(began)
			}()
		}
		var took []time.Duration
		for range 4 {
			took = append(took, <-times)
		}
		const first, second = 10 * time.Second, 20 * time.Second
		if took[0] != first || took[1] != first || took[2] != second || took[3] != second {
			t.Errorf("answered after %v", took)
		}
	})
}

// A question is answered without what there is no memory for, and the model knows it.
func TestAnswer_NoMemoryForFiles_IsToldToTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		file chat.File
		wait time.Duration
		want string
	}{
		"a picture": {chat.File{Name: "cat.png", Type: "image/png", Size: 1000}, 5 * time.Minute, "cat.png, image/png could not be loaded"},
		"a text":    {chat.File{Name: "a.txt", Size: 1000}, 45 * time.Second, "a.txt, which could not be read: too many others are being read"},
	} {
		synctest.Test(t, func(t *testing.T) {
			pool := resident.NewPool(1 << 20)
			if _, err := pool.Take(t.Context(), pool.Size()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			words := ""
			b, fetched := withPictures(nil, pool, func(_ int, r llm.Request) []llm.Chunk {
				words = wholeText(r)
				return llmtest.Says("ok")
			})
			m := asks("1", "look")
			m.Files = []chat.File{c.file}
			b.options.Documents = reading{}
			b.Engine = b.over()
			b.answer(t, t.Context(), one(m))
			if !strings.Contains(words, c.want) || *fetched != 0 || time.Since(began) != c.wait {
				t.Errorf("%s: fetched %d times, asked after %v with\n%s", name, *fetched, time.Since(began), words)
			}
		})
	}
}

// reading reads every file.
type reading struct{}

func (reading) Reads(string, string) bool { return true }

func (reading) Text(context.Context, string, string, []byte) (string, error) { return "text", nil }

// A call may wait hours for an approval. Meanwhile its question holds no memory; the request behind it has the picture all
// the same, which is fetched again then alone.
func TestAnswer_CallThatTakesLong_HoldsNoMemory(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Second: 1, time.Hour: 2} {
		synctest.Test(t, func(t *testing.T) {
			pool := resident.NewPool(16 << 20) // for one
			isFree := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				release, err := pool.Take(ctx, 1)
				if err == nil {
					release()
				}
				return err == nil
			}
			slow := does(func(context.Context, json.RawMessage) (tool.Result, error) {
				time.Sleep(took)
				if isFree() != (took == time.Hour) {
					t.Errorf("memory is free after %v of a call: %v", took, isFree())
				}
				return tool.Text("done"), nil
			})
			b, fetched := withPictures(tools{"slow": slow}, pool, func(n int, r llm.Request) []llm.Chunk {
				if !hasPicture(r) || isFree() {
					t.Errorf("request %d has the picture: %v, memory is free: %v", n, hasPicture(r), isFree())
				}
				if n == 1 {
					return llmtest.Calls("slow", `{}`)
				}
				return llmtest.Says("a cat")
			})
			b.answer(t, t.Context(), one(showsPicture()))
			if *fetched != want || !isFree() {
				t.Errorf("call of %v: fetched %d times, memory is free at the end: %v", took, *fetched, isFree())
			}
		})
	}
}

// Of files that would take more memory than there is for all, the first ones that fit are given to the model, and it knows
// of the others.
func TestAnswer_FilesLargerThanTheMemory_AreTold(t *testing.T) {
	var last llm.Request
	b, fetched := withPictures(nil, resident.NewPool(40<<20), func(_ int, r llm.Request) []llm.Chunk {
		last = r
		return llmtest.Says("ok")
	})
	m := showsPicture()
	for _, name := range []string{"b.png", "c.png", "d.png", "e.png"} {
		m.Files = append(m.Files, chat.File{Name: name, Type: "image/png", Size: 4 << 20})
	}
	m.Files = append(m.Files, chat.File{Name: "long.txt", Size: 9 << 20})
	b.options.Documents = reading{}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(m))
	words := wholeText(last)
	for _, want := range []string{"c.png, image/png could not be loaded", "d.png, image/png could not", "e.png, image/png could not",
		"long.txt, which could not be read: it is larger than 8 MiB"} {
		if !strings.Contains(words, want) {
			t.Errorf("the words lack %q:\n%s", want, words)
		}
	}
	if *fetched != 2 {
		t.Errorf("%d files were fetched", *fetched)
	}
}

// draws returns a tool that gives images of some sizes in bytes: a.png, b.png and so on.
func draws(sizes ...int) tool.Func {
	return does(func(context.Context, json.RawMessage) (tool.Result, error) {
		result := tool.Text("drawn")
		for i, size := range sizes {
			result.Files = append(result.Files,
				chat.File{Name: string(rune('a'+i)) + ".png", Type: "image/png", Data: make([]byte, size)})
		}
		return result, nil
	})
}

// Images of tools take the same memory in requests as attached ones: of many questions some wait until others are answered.
func TestAnswer_ImagesOfTools_WaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := resident.NewPool(30 << 20) // for one, with the picture of the question
		began := time.Now()
		times := make(chan time.Duration)
		for range 3 {
			b, _ := withPictures(tools{"draw": draws(3 << 20)}, pool, func(n int, r llm.Request) []llm.Chunk {
				if n == 1 {
					return llmtest.Calls("draw", `{}`)
				}
				time.Sleep(10 * time.Second)
				if want := n; countPictures(r) != want {
					t.Errorf("the model sees %d of %d pictures", countPictures(r), want)
				}
				return llmtest.Says("a cat")
			})
			go func() {
				b.answer(t, t.Context(), one(showsPicture()))
				times <- time.Since(began)
			}()
		}
		for i := range 3 {
			if took, want := <-times, time.Duration(i+1)*10*time.Second; took != want {
				t.Errorf("answer %d after %v, want %v", i+1, took, want)
			}
		}
		if _, ok := pool.TryTake(pool.Size()); !ok {
			t.Error("memory is held at the end")
		}
	})
}

// A question goes on without the images of tools for which no memory is free for too long, and the model knows it.
func TestAnswer_NoMemoryForImagesOfTools_IsToldToTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := resident.NewPool(1 << 20)
		if _, err := pool.Take(t.Context(), pool.Size()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var last llm.Request
		b, _ := withPictures(tools{"draw": draws(1000)}, pool, func(n int, r llm.Request) []llm.Chunk {
			if last = r; n == 1 {
				return llmtest.Calls("draw", `{}`)
			}
			return llmtest.Says("ok")
		})
		d := b.answer(t, t.Context(), one(asks("1", "draw")))
		const want = "images that tools gave could not be given to you for lack of memory"
		if hasPicture(last) || !strings.Contains(wholeText(last), want) || time.Since(began) != 5*time.Minute {
			t.Errorf("asked after %v with\n%s", time.Since(began), wholeText(last))
		}
		if len(d.Files) != 1 {
			t.Errorf("people get %d files", len(d.Files))
		}
	})
}

// Files of tools are kept until the answer is stored, as far as there is memory for them; a call never waits for it, since
// its question may hold the files of an earlier one. What is needed no longer is given back at once.
func TestAnswer_FilesOfTools_AreKeptWithinTheMemory(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		pool    int64
		calls   int
		sizes   []int
		leftOut string
		images  int
		posted  int
	}{
		"all fit":              {4 * mb, 1, []int{mb, mb}, "", 2, 2},
		"the second does not":  {2 * mb, 1, []int{mb, 2 * mb, mb}, "[b.png: left out", 2, 2},
		"small ones need none": {0, 1, []int{1000, 64 << 10}, "", 2, 2},
		"older ones make room": {28 * mb, 9, []int{4 * mb}, "", 4, 2}, // the post has the first two
		"what nobody gets":     {0, 1, []int{9 * mb}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool := resident.NewPool(c.pool)
			var last llm.Request
			b, _ := withPictures(tools{"draw": draws(c.sizes...)}, nil, func(n int, r llm.Request) []llm.Chunk {
				if last = r; n <= c.calls {
					return llmtest.Calls("draw", `{"n":`+string(rune('0'+n))+`}`)
				}
				return llmtest.Says("ok")
			})
			b.options.ResultMemory = pool
			b.Engine = b.over()
			d := b.answer(t, t.Context(), one(asks("1", "draw")))
			words := ""
			for _, m := range last.Messages {
				for _, p := range m.Parts {
					if p.Result != nil {
						words += p.Result.Content
					}
				}
			}
			if strings.Contains(words, "left out") != (c.leftOut != "") || !strings.Contains(words, c.leftOut) {
				t.Errorf("want %q in\n%s", c.leftOut, words)
			}
			if countPictures(last) != c.images || len(d.Files) != c.posted {
				t.Errorf("the model sees %d, people get %d", countPictures(last), len(d.Files))
			}
			if _, ok := pool.TryTake(c.pool); !ok {
				t.Error("memory is held at the end")
			}
		})
	}
}
