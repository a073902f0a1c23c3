package bolt

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// logText is a log that is read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// runLogged runs what watches over a store, in the bubble of a test, and returns what it logs and a function that ends
// it. The log may be read while all wait.
func runLogged(t *testing.T, db *TestStore) (log *logText, end func()) {
	t.Helper()
	log = &logText{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Run(ctx, slog.New(slog.NewTextHandler(log, nil)))
	}()
	return log, func() { stop(); <-done }
}

// watched waits until the file was looked at n times.
func watched(n int) {
	time.Sleep(time.Duration(n) * watchEvery)
	synctest.Wait()
}

// The operator is told once that nothing can be written, and once that it can again.
func TestRun_FileIsGoneForAWhile_TellsOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		log, end := runLogged(t, db)
		defer end()
		logged := func(gone, back int) {
			t.Helper()
			if n := strings.Count(log.String(), "store cannot be written"); n != gone {
				t.Errorf("%d times it was logged that it cannot be written, want %d", n, gone)
			}
			if n := strings.Count(log.String(), "store can be written again"); n != back {
				t.Errorf("%d times it was logged that it can be written, want %d", n, back)
			}
		}
		watched(3)
		logged(0, 0)
		for n := range 2 {
			if err := os.Rename(db.path, db.path+".away"); err != nil {
				t.Fatal(err)
			}
			watched(3)
			logged(n+1, n)
			if err := os.Rename(db.path+".away", db.path); err != nil {
				t.Fatal(err)
			}
			watched(3)
			logged(n+1, n+1)
		}
	})
}

// A disk that does not answer makes a write neither fail nor end: the operator is told all the same, once, and when the
// disk answers again.
func TestHealth_DiskDoesNotAnswer_TellsOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		log := &logText{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go db.logStalls(ctx, slog.New(slog.NewTextHandler(log, nil)))
		answers, written := make(chan bool), make(chan error)
		go func() { written <- db.update(ctx, func(*tx) error { <-answers; return nil }) }()
		time.Sleep(stallAfter)
		synctest.Wait()
		if err := db.Health(); err != nil || log.String() != "" {
			t.Errorf("of a slow write: %v, logged %s", err, log)
		}
		time.Sleep(2 * stallAfter)
		synctest.Wait()
		if got := db.Problem(); got != "the store cannot be written: its disk has not answered for 30s" {
			t.Errorf("the problem is %q", got)
		}
		if strings.Count(log.String(), "store cannot be written") != 1 || strings.Contains(log.String(), "again") {
			t.Errorf("logged %s", log)
		}
		answers <- true
		if err := <-written; err != nil {
			t.Error(err)
		}
		time.Sleep(stallAfter)
		synctest.Wait()
		if err := db.Health(); err != nil || strings.Count(log.String(), "answers again") != 1 {
			t.Errorf("afterwards: %v, logged %s", err, log)
		}
	})
}

// The whole store is read once a day. What is wrong is logged each time, with what to do.
func TestRun_StoreIsDamaged_IsLoggedOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		if err := db.SaveBlob(t.Context(), "words", []byte(`"spoiled by a disk"`)); err != nil {
			t.Fatal(err)
		}
		log, end := runLogged(t, db)
		defer end()
		logged := func(good, damaged int) {
			t.Helper()
			if n := strings.Count(log.String(), "store checked"); n != good {
				t.Errorf("%d checks found nothing, want %d", n, good)
			}
			if n := strings.Count(log.String(), "store damaged"); n != damaged {
				t.Errorf("%d checks found a damage, want %d", n, damaged)
			}
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(checkEvery - time.Minute)
		logged(0, 0) // opening it has checked it
		pass(2 * time.Minute)
		logged(1, 0)
		flipByte(t, db.path, "spoiled by")
		pass(checkEvery)
		logged(1, 1)
		pass(checkEvery)
		logged(1, 2)
		if !strings.Contains(log.String(), `record \"words\"`) || !strings.Contains(log.String(), "ravenbot store salvage") {
			t.Errorf("the log does not say what is wrong and what to do: %s", log)
		}
	})
}

// A check that is overdue waits until the start is over.
func TestRun_CheckIsOverdue_WaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		db.health.noteChecked(time.Now().AddDate(-1, 0, 0))
		log, end := runLogged(t, db)
		defer end()
		time.Sleep(firstCheck - time.Second)
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("it is checked as soon as it is opened: %s", log)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := strings.Count(log.String(), "store checked"); n != 1 {
			t.Errorf("it was checked %d times within an hour: %s", n, log)
		}
	})
}

// A check that could not read the store is logged and tried again a day later; one that was cut off is neither.
func TestCheckAndLog_CannotRead_TriesAgainTomorrow(t *testing.T) {
	db := opened(t)
	db.health.noteChecked(time.Time{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ended, stop := context.WithCancel(t.Context())
	stop()
	db.checkAndLog(ended, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 || !db.Checked().IsZero() {
		t.Errorf("a check that was cut off counts, and logged %q", log.String())
	}
	db.checkAndLog(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "failed to check the store") || db.Checked().IsZero() {
		t.Errorf("it was checked %v, and logged %q", db.Checked(), log.String())
	}
}

// A write that fails and works again between two looks is logged, too: the failure is in somebody else's log.
func TestRun_WriteFailsBriefly_LogsThatItWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		log, end := runLogged(t, db)
		defer end()
		watched(1)
		db.health.noteWrite(syscall.ENOSPC)
		db.health.noteWrite(nil)
		watched(3)
		if n := strings.Count(log.String(), "store can be written again"); n != 1 {
			t.Errorf("%d times it was logged that it can be written, want 1:\n%s", n, log.String())
		}
	})
}
