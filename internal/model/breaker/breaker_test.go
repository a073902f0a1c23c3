package breaker_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/testing/llmtest"
)

// provider is a model that answers as its behaviour says.
type provider struct {
	mu       sync.Mutex
	requests int
	behave   func(ctx context.Context, yield func(llm.Chunk, error) bool)
}

func (*provider) ID() string { return "test/model" }

func (p *provider) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		p.mu.Lock()
		p.requests++
		behave := p.behave
		p.mu.Unlock()
		behave(ctx, yield)
	}
}

func (p *provider) set(behave func(context.Context, func(llm.Chunk, error) bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behave = behave
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func failing(kind llm.Kind, after time.Duration) func(context.Context, func(llm.Chunk, error) bool) {
	return func(_ context.Context, yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Kind: kind, Provider: "test", RetryAfter: after})
	}
}

func answering(_ context.Context, yield func(llm.Chunk, error) bool) {
	for _, c := range llmtest.Says("fine") {
		if !yield(c, nil) {
			return
		}
	}
}

func hanging(ctx context.Context, yield func(llm.Chunk, error) bool) {
	<-ctx.Done()
	yield(llm.Chunk{}, ctx.Err())
}

func start(behave func(context.Context, func(llm.Chunk, error) bool)) (*provider, *breaker.Model, *strings.Builder) {
	p, log := &provider{behave: behave}, &strings.Builder{}
	return p, breaker.New(p, breaker.Options{
		Name:       "default",
		FirstToken: 20 * time.Second,
		Log:        slog.New(slog.NewTextHandler(log, nil)),
	}), log
}

// ask returns the error of one request.
func ask(ctx context.Context, m llm.Model) *llm.Error {
	for _, err := range m.Generate(ctx, llm.Request{}) {
		if err == nil {
			continue
		}
		var fault *llm.Error
		if !errors.As(err, &fault) {
			fault = &llm.Error{Kind: "other", Err: err}
		}
		return fault
	}
	return nil
}

func TestGenerate_RepeatedFailure_OpensTheCircuitForAllKindsThatAreTheModels(t *testing.T) {
	for kind, opens := range map[llm.Kind]bool{
		llm.Unavailable: true, llm.RateLimited: true, llm.Exhausted: true, llm.TimedOut: true,
		llm.BadRequest: false, llm.Denied: false, llm.Blocked: false, llm.ContextTooLong: false, llm.OutputLimit: false,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, m, _ := start(failing(kind, 0))
				for range 10 {
					fault := ask(t.Context(), m)
					if fault == nil || fault.Kind != kind {
						t.Fatalf("failed with %v, want the kind of the last failure", fault)
					}
					time.Sleep(time.Second)
				}
				if want := map[bool]int{true: 3, false: 10}[opens]; p.count() != want {
					t.Errorf("the model got %d of 10 requests, want %d", p.count(), want)
				}
			})
		})
	}
}

func TestGenerate_FailureThatOpensTheCircuit_IsNotRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m, log := start(failing(llm.Unavailable, 0))
		for n, want := range []bool{true, true, false, false} {
			if fault := ask(t.Context(), m); fault.IsRetryable() != want || fault.CircuitOpen == want {
				t.Errorf("failure %d: %v is retryable: %t, want %t", n+1, fault, fault.IsRetryable(), want)
			}
		}
		if got := strings.Count(log.String(), "model circuit opened"); got != 1 {
			t.Errorf("the log says %d times that the circuit opened:\n%s", got, log)
		}
	})
}

func TestGenerate_Open_ProbesOnceWithGrowingPausesAndClosesAtSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, log := start(failing(llm.Unavailable, 0))
		for range 3 {
			ask(t.Context(), m)
		}
		asked := 3
		for _, pause := range []time.Duration{30, 60, 120, 240, 300, 300} {
			pause *= time.Second
			if s := m.Status(); s.State != breaker.Open || !s.Until.Equal(time.Now().Add(pause)) || s.Error == "" {
				t.Fatalf("the status is %+v, want open for %v", s, pause)
			}
			time.Sleep(pause - time.Second)
			if fault := ask(t.Context(), m); !fault.CircuitOpen || fault.RetryAfter != 30*time.Second {
				t.Errorf("a second before the probe: %+v, want refused with at least 30s", fault)
			}
			time.Sleep(time.Second)
			if s := m.Status(); s.State != breaker.HalfOpen {
				t.Errorf("after %v the circuit is %s", pause, s.State)
			}
			if ask(t.Context(), m); p.count() != asked+1 {
				t.Fatalf("after %v the model got %d requests, want one probe", pause, p.count()-asked)
			}
			asked++
		}
		p.set(answering)
		time.Sleep(5 * time.Minute)
		if fault := ask(t.Context(), m); fault != nil {
			t.Fatal(fault)
		}
		if s := m.Status(); s.State != breaker.Closed || s.Error != "" || !s.Until.IsZero() || !s.Answered.Equal(time.Now()) {
			t.Errorf("after a good answer the status is %+v", s)
		}
		if !strings.Contains(log.String(), "model circuit closed") {
			t.Errorf("the log does not say that the circuit closed:\n%s", log)
		}
		// It begins from the shortest pause again.
		p.set(failing(llm.Unavailable, 0))
		for range 3 {
			ask(t.Context(), m)
		}
		if s := m.Status(); !s.Until.Equal(time.Now().Add(30 * time.Second)) {
			t.Errorf("opened again until %v, want 30s", s.Until)
		}
	})
}

// While the probe is under way nobody else asks. One whose caller leaves is made again by the next.
func TestGenerate_HalfOpen_LetsOneRequestThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := start(failing(llm.Unavailable, 0))
		for range 3 {
			ask(t.Context(), m)
		}
		time.Sleep(30 * time.Second)
		p.set(hanging)
		ctx, stop := context.WithCancel(t.Context())
		outcome := make(chan *llm.Error, 1)
		go func() { outcome <- ask(ctx, m) }()
		synctest.Wait()
		for range 20 {
			if fault := ask(t.Context(), m); !fault.CircuitOpen {
				t.Fatalf("during the probe: %v, want refused", fault)
			}
		}
		if p.count() != 4 {
			t.Errorf("the model got %d requests, want 3 and one probe", p.count())
		}
		stop()
		if fault := <-outcome; fault.CircuitOpen || fault.Kind != "other" {
			t.Errorf("the cancelled probe ended with %v", fault)
		}
		p.set(answering)
		if fault := ask(t.Context(), m); fault != nil {
			t.Errorf("the next probe failed: %v", fault)
		}
	})
}

func TestGenerate_ProviderNamesAPause_IsNotAskedBefore(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		10 * time.Second: 30 * time.Second, 10 * time.Minute: 10 * time.Minute, 24 * time.Hour: time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, m, _ := start(failing(llm.RateLimited, after))
			for range 3 {
				ask(t.Context(), m)
				time.Sleep(time.Millisecond)
			}
			if fault := ask(t.Context(), m); fault.RetryAfter.Round(time.Second) != want {
				t.Errorf("asked for a pause of %v: the error says %v, want %v", after, fault.RetryAfter, want)
			}
		})
	}
}

// A burst that meets a rate limit at once is one refusal: the model answers the next of them.
func TestGenerate_BurstOfRateLimits_CountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := start(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			time.Sleep(time.Second)
			yield(llm.Chunk{}, &llm.Error{Kind: llm.RateLimited})
		})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { ask(t.Context(), m) })
		}
		wg.Wait()
		if s := m.Status(); s.State != breaker.Closed || p.count() != 50 {
			t.Errorf("after one burst of %d the circuit is %s", p.count(), s.State)
		}
		for range 2 {
			ask(t.Context(), m)
		}
		if s := m.Status(); s.State != breaker.Open {
			t.Errorf("refused in two more requests the circuit is %s", s.State)
		}
	})
}

func TestGenerate_SuccessBetweenFailures_KeepsTheCircuitClosed(t *testing.T) {
	p, m, _ := start(nil)
	for n := range 20 {
		if p.set(failing(llm.Unavailable, 0)); n%3 == 2 {
			p.set(answering)
		}
		ask(t.Context(), m)
	}
	if p.count() != 20 {
		t.Errorf("the model got %d of 20 requests", p.count())
	}
}

func TestGenerate_CallersOwnEnd_IsNoFailureOfTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := start(hanging)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ask(ctx, m)
			cancel()
		}
		p.set(answering)
		for range 5 {
			for range m.Generate(t.Context(), llm.Request{}) {
				break
			}
		}
		if s := m.Status(); s.State != breaker.Closed || p.count() != 10 {
			t.Errorf("the circuit is %s after %d requests that callers ended", s.State, p.count())
		}
		// The limit of the model itself is another matter.
		p.set(hanging)
		for range 3 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &llm.Error{Kind: llm.TimedOut, Reason: "whole"})
			if fault := ask(ctx, m); fault.Reason != "whole" {
				t.Errorf("failed with %v, want the cause", fault)
			}
			cancel()
		}
		if s := m.Status(); s.State != breaker.Open {
			t.Errorf("after three time-outs the circuit is %s", s.State)
		}
	})
}

func TestGenerate_FirstToken(t *testing.T) {
	thought := func(ctx context.Context, yield func(llm.Chunk, error) bool) {
		time.Sleep(19 * time.Second)
		if !yield(llm.Chunk{Parts: []llm.Part{{Text: "hm", Thought: true}}}, nil) {
			return
		}
		select {
		case <-time.After(80 * time.Second):
			answering(ctx, yield)
		case <-ctx.Done():
			yield(llm.Chunk{}, ctx.Err())
		}
	}
	for name, c := range map[string]struct {
		behave func(context.Context, func(llm.Chunk, error) bool)
		want   time.Duration
		fails  bool
	}{
		"silent":            {hanging, 20 * time.Second, true},
		"thinks aloud":      {thought, 99 * time.Second, false},
		"answers all right": {answering, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, m, _ := start(c.behave)
				began := time.Now()
				fault := ask(t.Context(), m)
				if took := time.Since(began); took != c.want || (fault != nil) != c.fails {
					t.Errorf("ended with %v after %v, want it after %v", fault, took, c.want)
				}
				if c.fails && (fault.Kind != llm.TimedOut || !strings.Contains(fault.Reason, "models.default.firstTokenTimeout")) {
					t.Errorf("failed with %v, want the key to change", fault)
				}
			})
		})
	}
}

func TestGenerate_EndlessAnswer_EndsAtTheLimit(t *testing.T) {
	for name, piece := range map[string]string{
		"small pieces":   strings.Repeat("ä", 1000),
		"one huge piece": strings.Repeat("ä", 40<<20),
	} {
		t.Run(name, func(t *testing.T) {
			p, m, _ := start(func(_ context.Context, yield func(llm.Chunk, error) bool) {
				for yield(llm.Chunk{Parts: []llm.Part{{Text: piece}}}, nil) {
				}
			})
			var size int
			var last llm.Chunk
			for c, err := range m.Generate(t.Context(), llm.Request{}) {
				if err != nil {
					t.Fatal(err)
				}
				last = c
				for _, part := range c.Parts {
					size += len(part.Text)
				}
			}
			if size > breaker.MaxAnswerBytes || size < breaker.MaxAnswerBytes-1 {
				t.Errorf("%d bytes were passed on, want %d", size, breaker.MaxAnswerBytes)
			}
			if last.Finish != llm.FinishOversize || last.Usage == nil || last.Usage.Output == 0 {
				t.Errorf("the last piece is %q, %+v; want it to say that it was cut, and to count", last.Finish, last.Usage)
			}
			if s := m.Status(); s.State != breaker.Closed || p.count() != 1 {
				t.Errorf("the circuit is %s", s.State)
			}
		})
	}
}

// An endpoint that answers with something else is in trouble like one that does not answer.
func TestGenerate_AnswerHoldsNothing_IsAFailureOfTheModel(t *testing.T) {
	for name, chunks := range map[string][]llm.Chunk{"no piece": nil, "usage alone": {{Usage: &llm.Usage{Input: 1}}}} {
		t.Run(name, func(t *testing.T) {
			p, m, _ := start(func(_ context.Context, yield func(llm.Chunk, error) bool) {
				for _, c := range chunks {
					yield(c, nil)
				}
			})
			for range 5 {
				fault := ask(t.Context(), m)
				if fault == nil || fault.Kind != llm.Unavailable || !strings.Contains(fault.Reason, "models.default.baseURL") {
					t.Fatalf("failed with %v, want the key to check", fault)
				}
			}
			if p.count() != 3 {
				t.Errorf("the model got %d of 5 requests, want 3", p.count())
			}
		})
	}
}

func TestGenerate_HugeCall_IsLeftOut(t *testing.T) {
	call := &llm.Call{ID: "1", Name: "write", Args: []byte(`"` + strings.Repeat("x", breaker.MaxAnswerBytes) + `"`)}
	_, m, _ := start(func(_ context.Context, yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Parts: []llm.Part{{Text: "here"}, {Call: call}}, Finish: llm.FinishStop}, nil)
	})
	for c := range m.Generate(t.Context(), llm.Request{}) {
		if len(c.Parts) != 1 || c.Parts[0].Text != "here" || c.Finish != llm.FinishOversize {
			t.Errorf("passed on %d parts, finish %q", len(c.Parts), c.Finish)
		}
	}
}

// able is a model with an ability.
type able struct{ llmtest.Model }

func (*able) Hears(string) bool { return true }

func TestAs_FindsAbilitiesOfTheModelInside(t *testing.T) {
	m := breaker.New(&able{}, breaker.Options{})
	if l, ok := llm.As[llm.Listener](m); !ok || !l.Hears("audio/ogg") {
		t.Error("the ability of the model is not found")
	}
	if _, ok := llm.As[llm.Embedder](m); ok {
		t.Error("an ability is found that the model has not")
	}
	if _, ok := llm.As[llm.Listener](nil); ok {
		t.Error("no model has an ability")
	}
}

// selective is a model that answers one text alone.
type selective struct{ *provider }

func (selective) CanAnswer(q llm.Request) bool { return q.System == "known" }

// A model that would refuse the request is not a fallback.
func TestCanAnswer_IsFalseWhileTheCircuitIsOpenAndWhereTheModelSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := start(failing(llm.Unavailable, 0))
		can := func(want bool, when string) {
			t.Helper()
			if got := m.CanAnswer(llm.Request{}); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		can(true, "closed")
		for range 3 {
			_ = ask(t.Context(), m)
		}
		can(false, "open")
		time.Sleep(30 * time.Second)
		can(true, "half-open")
		p.set(answering)
		if fault := ask(t.Context(), m); fault != nil {
			t.Fatal(fault)
		}
		can(true, "closed again")
		narrow := breaker.New(selective{p}, breaker.Options{})
		if narrow.CanAnswer(llm.Request{System: "unknown"}) || !narrow.CanAnswer(llm.Request{System: "known"}) {
			t.Error("the model itself is not asked")
		}
	})
}

func TestStatus_SaysWhenTheModelLastAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m, _ := start(failing(llm.Unavailable, 0))
		if ask(t.Context(), m); !m.Status().Answered.IsZero() {
			t.Errorf("a failure counts as an answer: %+v", m.Status())
		}
		p.set(answering)
		ask(t.Context(), m)
		at := time.Now()
		time.Sleep(time.Minute)
		p.set(failing(llm.Unavailable, 0))
		if ask(t.Context(), m); !m.Status().Answered.Equal(at) {
			t.Errorf("it last answered at %v, want %v", m.Status().Answered, at)
		}
	})
}
