package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

// The older of two headers is found wherever it stands, and none where the other one is of another file.
func TestOlderHeader(t *testing.T) {
	const size = 4096
	younger := meta{pageSize: size, root: 3, freelist: 2, pages: 9, txid: 8}
	older, other := younger, younger
	older.txid, other.txid, other.pageSize = 7, 7, 2*size
	for name, c := range map[string]struct {
		first, second, effective meta
		want                     bool
	}{
		"first":                {older, younger, younger, true},
		"second":               {younger, older, younger, true},
		"of one time":          {younger, younger, younger, false},
		"of another page size": {younger, other, younger, false},
		"in effect":            {older, younger, older, false},
	} {
		file := make([]byte, 2*size)
		copy(file, header(c.first))
		copy(file[size:], header(c.second))
		s := &salvager{f: bytes.NewReader(file), meta: c.effective}
		if got, ok := s.olderHeader(); ok != c.want || ok && got != older {
			t.Errorf("%s: %+v, %v, want that one is found: %v", name, got, ok, c.want)
		}
	}
}

// salvageable writes a store with conversations of all sizes, and returns its path and its records.
func salvageable(t *testing.T) (path string, records map[string]string) {
	t.Helper()
	db := opened(t)
	for i := range 30 {
		a := chat.Address{Platform: "slack", Workspace: "T1", Channel: fmt.Sprint("C", i)}
		for n := range 1 + i*3 {
			words := fmt.Sprintf("words %d of channel %d %s", n, i, bytes.Repeat([]byte("x"), 300))
			turn := &conversation.Turn{ID: fmt.Sprint(i, n), Of: []string{fmt.Sprintf("slack/%d-%d", i, n)},
				Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: words}}}}}
			if err := db.SaveTurn(t.Context(), a, turn); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 200 {
		if err := db.SaveBlob(t.Context(), fmt.Sprint("blob", i), []byte(`"some words"`)); err != nil {
			t.Fatal(err)
		}
	}
	records = rawRecords(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return db.path, records
}

// rawRecords returns all records but the tallies, by bucket and key.
func rawRecords(t *testing.T, db *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	var visit func(name string, b *bbolt.Bucket) error
	visit = func(name string, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return visit(name+nul+string(k), b.Bucket(k))
			}
			if name == formatBucket && string(k) == string(generationKey) {
				v = generationKey // each commit has another one
			}
			if name != talliesBucket {
				all[name+nul+string(k)] = string(v)
			}
			return nil
		})
	}
	err := db.directView(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return visit(string(name), b) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// salvage salvages a file and returns the report and the records of the copy.
func salvage(t *testing.T, path string) (Salvaged, map[string]string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "salvaged.db")
	r, err := Salvage(t.Context(), path, to)
	if err != nil {
		if _, statErr := os.Stat(to); statErr == nil {
			t.Error("a salvage that failed left a file")
		}
		return r, nil, err
	}
	db, err := Open(to, time.Now)
	if err != nil {
		t.Fatalf("the copy cannot be opened: %v", err)
	}
	records := rawRecords(t, db)
	checkWhole(t, db)
	return r, records, nil
}

func TestSalvage_OfAWholeStore_IsTheStore(t *testing.T) {
	path, want := salvageable(t)
	r, got, err := salvage(t, path)
	if err != nil || len(r.Lost) > 0 || len(r.Faults) > 0 || int(r.Records) != len(want) {
		t.Fatalf("%+v (%v)", r, err)
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("record %q is %q, want %q", k, got[k], v)
		}
	}
}

// A page that is gone is named by the conversation that it belonged to, and all else is there.
func TestSalvage_NamesTheConversationThatALostPageBelongedTo(t *testing.T) {
	path, want := salvageable(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := scanBytes(b)
	lost := 0
	// The page may be there in older states, too; only one of them is in use.
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("words 40 of channel 20 "))
		if i < 0 {
			break
		}
		at += i + 1
		clear(b[at/s.meta.pageSize*s.meta.pageSize : (at/s.meta.pageSize+1)*s.meta.pageSize])
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, got, err := salvage(t, path)
	if err != nil || len(r.Lost) != 1 {
		t.Fatalf("%+v (%v), want one loss", r, err)
	}
	for k := range want {
		if got[k] == "" {
			lost++
		}
	}
	if l := r.Lost[0]; l.Bucket != turnsBucket || l.Of != "slack:T1/C20" || l.Stored != 61 || int(l.Lost) != lost ||
		lost == 0 || lost > 20 {
		t.Errorf("%+v is named as lost, and %d records are missing", l, lost)
	}
}

// A key that was damaged into another one gives no record a name that it did not have.
func TestSalvage_WhereAKeyBecameAnotherOne_TrustsNeither(t *testing.T) {
	for name, key := range map[string]struct{ stored, damaged string }{
		"that of another record":     {"slack/29-21\x01", "slack/29-23\x01"},
		"behind the next, the first": {"slack/0-0\x01", "slack/1-5\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			path, want := salvageable(t)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// In every state of the page.
			b = bytes.ReplaceAll(b, []byte(key.stored), []byte(key.damaged))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			r, got, err := salvage(t, path)
			if err != nil || len(r.Faults) == 0 {
				t.Fatalf("%+v (%v)", r, err)
			}
			for k, v := range got {
				if was, ok := want[k]; !ok || was != v {
					t.Errorf("record %q was never stored as %q", k, v)
				}
			}
			if len(r.Lost) != 1 || r.Lost[0].Bucket != messageTurnsBucket || int(r.Lost[0].Lost) != len(want)-len(got) ||
				r.Lost[0].Lost != 2 {
				t.Errorf("lost %+v of %d records, %d are there", r.Lost, len(want), len(got))
			}
		})
	}
}

// TestSalvage_OfAnyDamage_InventsNothing: what is in the copy was stored, and what is missing is named.
func TestSalvage_OfAnyDamage_InventsNothing(t *testing.T) {
	path, want := salvageable(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const size = 4096
	for _, test := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"truncated", func(b []byte) []byte { return b[:random.IntN(len(b))] }},
		{"pages zeroed", func(b []byte) []byte {
			for range 1 + random.IntN(8) {
				n := random.IntN(len(b) / size)
				clear(b[n*size : (n+1)*size])
			}
			return b
		}},
		{"64 bits flipped", func(b []byte) []byte {
			for range 64 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			salvaged := 0
			for range 8 {
				if err := os.WriteFile(path, test.damage(bytes.Clone(whole)), 0o600); err != nil {
					t.Fatal(err)
				}
				r, got, err := salvage(t, path)
				if err != nil {
					continue // nothing of it can be read
				}
				salvaged += len(got)
				named := map[string]bool{}
				for _, l := range r.Lost {
					named[l.Bucket] = true
				}
				for k, v := range got {
					// A key has no checksum: where one was damaged the tally tells that its bucket is wrong.
					top, _, _ := strings.Cut(k, nul)
					was, ok := want[k]
					if ok && was != v && top != formatBucket || !ok && !named[top] && len(r.Faults) == 0 {
						t.Errorf("record %q was never stored as %q", k, v)
					}
					// Whatever is damaged, nobody's words get under another name.
					if !ok && top == turnsBucket {
						t.Errorf("turn %q was never there", k)
					}
				}
				if len(got) < len(want) && len(r.Lost) == 0 && len(r.Faults) == 0 {
					t.Errorf("%d of %d records are missing, and nothing is said", len(want)-len(got), len(want))
				}
			}
			// The page that leads to all others is often the last one, which is the first to be cut off.
			if salvaged == 0 && test.name != "truncated" {
				t.Error("nothing was salvaged of any copy")
			}
		})
	}
}

func TestSalvage_RefusesWhatIsInUseOrThere(t *testing.T) {
	path, _ := salvageable(t)
	db, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to.db")
	var inUse *store.InUseError
	if _, err := Salvage(t.Context(), path, to); !errors.As(err, &inUse) {
		t.Errorf("salvaging a store in use gave %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("salvaging to a file that is there gave %v", err)
	}
	if err := os.WriteFile(path, []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, to); err == nil {
		t.Error("what is no store was salvaged")
	}
}

// What is stored after a salvage gets further numbers: one that was given before would replace a record, or name
// another one.
func TestSalvage_NumbersGoOn(t *testing.T) {
	db := opened(t)
	save := func(db *DB, id string) {
		t.Helper()
		call := store.ToolCall{ID: id, Conversation: general, Began: time.Now()}
		turn := conversation.Turn{ID: "web/" + id, Began: time.Now()}
		if err := errors.Join(db.SaveCalls(t.Context(), []store.ToolCall{call}),
			db.SaveTurn(t.Context(), general, &turn)); err != nil {
			t.Fatal(err)
		}
	}
	save(db, "first")
	save(db, "second")
	// The newest turn is gone, and its number must not be given again.
	if err := db.DeleteTurn(t.Context(), general, 2); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "salvaged.db")
	if _, err := Salvage(t.Context(), db.path, to); err != nil {
		t.Fatal(err)
	}
	salvaged, err := Open(to, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer salvaged.Close()
	save(salvaged, "third")
	calls, err := salvaged.ToolCalls(t.Context(), 0, 9, nil)
	if err != nil || len(calls) != 3 || calls[0].ID != "third" || calls[0].Seq != 3 {
		t.Errorf("the calls are %+v, %v", calls, err)
	}
	turns, err := salvaged.Turns(t.Context(), general, store.Range{Newest: 9})
	if err != nil || len(turns) != 2 || turns[1].ID != "web/third" || turns[1].Seq != 3 {
		t.Errorf("the turns are %+v, %v", turns, err)
	}
}

// A record belongs to a bucket where it says so itself, or where nothing is said; a turn where the index of messages
// says so. What holds words and says nothing belongs to nobody.
func TestBelongs(t *testing.T) {
	db := opened(t)
	turn := conversation.Turn{ID: "1", Of: []string{"web/1"}, Began: time.Now()}
	if err := db.SaveTurn(t.Context(), general, &turn); err != nil {
		t.Fatal(err)
	}
	name, other := general.String(), room(1).String()
	if err := db.view(func(tx *tx) error {
		for what, c := range map[string]struct {
			outer, inner string
			key          []byte
			record       any
			want         bool
		}{
			"a turn":                  {turnsBucket, name, seqKey(1), turn, true},
			"a turn of another one":   {turnsBucket, other, seqKey(1), turn, false},
			"another turn":            {turnsBucket, name, seqKey(2), turn, false},
			"a turn without a number": {turnsBucket, name, []byte("1"), turn, false},
			"a turn of no messages":   {turnsBucket, name, seqKey(1), conversation.Turn{ID: "2"}, false},
			"no turn":                 {turnsBucket, name, seqKey(1), 7, false},
			"a turn of no address":    {turnsBucket, "web:/general/a/b/c", seqKey(1), turn, false},
			"a message":               {messagesBucket, name, nil, store.Message{Conversation: general}, true},
			"a message elsewhere":     {messagesBucket, name, nil, store.Message{Conversation: room(1)}, false},
			"no message":              {messagesBucket, name, nil, 7, false},
			"a line":                  {roomsBucket, "general", nil, store.Entry{Room: "general"}, true},
			"a line elsewhere":        {roomsBucket, "general", nil, store.Entry{Room: "other"}, false},
			"a note":                  {memoriesBucket, "scope", nil, store.Memory{Scope: "scope"}, true},
			"a note elsewhere":        {memoriesBucket, "scope", nil, store.Memory{Scope: "other"}, false},
			"a run":                   {runsBucket, "digest", nil, store.Run{Digest: "digest"}, true},
			"a run elsewhere":         {runsBucket, "digest", nil, store.Run{Digest: "other"}, false},
			"a file":                  {roomFilesBucket, "general", nil, map[string]string{"name": "a"}, false},
			"an item":                 {itemsBucket, "agents", nil, map[string]string{}, false},
			"an item that was seen":   {seenBucket, "digest", nil, time.Now(), true},
		} {
			v, err := encode(c.record)
			if err != nil {
				return err
			}
			if got := belongs(tx, c.outer, c.inner, c.key, v); got != c.want {
				t.Errorf("%s: %v, want %v", what, got, c.want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Whoever salvages is told where the copy cannot be written: a name that was a record's is a bucket's in another page.
func TestSalvager_CopyCannotBeWritten_Fails(t *testing.T) {
	for what, r := range map[string]salvagedRecord{
		"a bucket in the place of a record": {bucket: blobsBucket + nul + "k", key: []byte("k"), value: seal([]byte(`1`))},
		"a record in the place of a bucket": {bucket: turnsBucket, key: []byte(general.String()), value: seal([]byte(`1`))},
	} {
		db := opened(t)
		saveTurns(t, db, general, 0, 1, time.Now())
		if err := db.SaveBlob(t.Context(), "k", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		s := &salvager{ctx: t.Context(), db: db, counts: map[string]tally{}}
		if err := errors.Join(s.add(r), s.flush()); err == nil || s.records > 0 {
			t.Errorf("%s: %d records are salvaged (%v)", what, s.records, err)
		}
	}
}

// Where it is ended before all is read, salvaging fails: what is left out then is no loss.
func TestSalvageInto_ContextEnds_Fails(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 300, time.Now())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	torn := imageOf(t, db.path)
	// A record is damaged: then the tree of the transaction before is read, too, and what may belong to others dropped.
	p, i := torn.find(turnsBucket+nul+general.String(), string(seqKey(7)))
	_, _, value, _ := p.leaf(i)
	value[len(value)-1] ^= 1
	torn.write(db.path)
	whole, err := salvageInto(t.Context(), db.path, filepath.Join(t.TempDir(), "salvaged.db"))
	if err != nil {
		t.Fatal(err)
	}
	folder, n := t.TempDir(), 0
	for ; ; n++ {
		ctx := EndAfter(t.Context(), n)
		s, err := salvageInto(ctx, db.path, filepath.Join(folder, fmt.Sprint(n)))
		if err == nil {
			if s.records != whole.records || HasEnded(ctx) {
				t.Errorf("after %d looks at its context it salvages %d records of %d", n, s.records, whole.records)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks at its context: %v", n, err)
		}
	}
	if n < 20 {
		t.Errorf("it looks at its context %d times", n)
	}
}

// TestSalvage_BranchIsDamaged_IsSaid: what a branch page leads to is lost, and the report names it.
func TestSalvage_BranchIsDamaged_IsSaid(t *testing.T) {
	path, _ := salvageable(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for rest := b; len(rest) > 0; rest = rest[4096:] {
		// The length of the second key of each branch page, behind its place.
		if p := page(rest); p.kind() == branchPage && p.count() > 1 {
			binary.NativeEndian.PutUint32(rest[pageHeader+elementSize+4:], 1<<30)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, _, err := salvage(t, path)
	if err != nil || !slices.ContainsFunc(r.Faults, func(f string) bool { return strings.HasPrefix(f, "branch 1 of page") }) {
		t.Errorf("%+v (%v)", r, err)
	}
}

// A tree may have as many levels as the bound, and what lies deeper is reported as lost.
func TestSalvager_LevelsUpToTheBound_AreRead(t *testing.T) {
	for levels, want := range map[int][]string{
		maxDepth: nil, maxDepth + 1: {fmt.Sprintf("page %d of the bucket %s cannot be read", 2+maxDepth, blobsBucket)},
	} {
		b := levelsOfPages(levels)
		s := &salvager{ctx: t.Context(), f: bytes.NewReader(b), used: map[uint64]bool{}, torn: map[string]bool{},
			meta: meta{pageSize: 1024, pages: uint64(len(b) / 1024)}}
		if err := s.walk(2, 0, nil, nil, blobsBucket); err != nil || !slices.Equal(s.faults, want) {
			t.Errorf("%d levels: found %q, want %q (%v)", levels, s.faults, want, err)
		}
	}
}

// What was lost is listed in the order of the buckets.
func TestLosses_AreSorted(t *testing.T) {
	s := &salvager{counts: map[string]tally{}, recorded: map[string]tally{}}
	var want []Loss
	for _, top := range []string{itemsBucket, memoriesBucket, turnsBucket} {
		for _, inner := range []string{"a", "b", "c"} {
			s.recorded[top+nul+inner] = tally{count: 3}
			want = append(want, Loss{Bucket: top, Of: inner, Lost: 3, Stored: 3})
		}
	}
	if got := s.losses(); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// Whoever salvages is told where what belongs elsewhere cannot be removed from the copy.
func TestDropStrangers_CopyCannotBeWritten_Fails(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 2, time.Now())
	ctx, end := context.WithCancel(t.Context())
	end()
	for name, count := range map[string]uint64{turnsBucket + nul + general.String(): 1, summariesBucket: 0} {
		s := &salvager{ctx: ctx, db: db, counts: map[string]tally{name: {count: count}}, recorded: map[string]tally{}}
		if err := s.dropStrangers(); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A page holds the keys from that of its branch up to that of the next one, in order. What lies outside, or is out of
// order, has another name than it should have, or is of another page, and is left out.
func TestSalvager_KeysOutsideOfTheirBranchOrOutOfOrder_AreLeftOut(t *testing.T) {
	const size = 1024
	b := make([]byte, 6*size)
	for id, page := range map[int]struct {
		kind   byte
		keys   string
		childs []uint64
	}{
		2: {branchPage, "bdf", []uint64{3, 4, 5}},
		3: {leafPage, "acbde", nil}, // of c and b one is damaged
		4: {leafPage, "deef", nil},  // and of e and e
		5: {leafPage, "efgz", nil},
	} {
		p := b[id*size:]
		binary.NativeEndian.PutUint64(p, uint64(id))
		p[8], p[10] = page.kind, byte(len(page.keys))
		value := seal([]byte("{}"))
		data := len(page.keys) * elementSize
		for i, key := range page.keys {
			e := p[pageHeader+i*elementSize:]
			at := data - i*elementSize // counted from the element
			data += copy(e[at:], append([]byte{byte(key)}, value...))
			if page.kind == branchPage {
				binary.NativeEndian.PutUint32(e, uint32(at))
				binary.NativeEndian.PutUint32(e[4:], 1)
				binary.NativeEndian.PutUint64(e[8:], page.childs[i])
				continue
			}
			flags := 0
			if key == 'g' {
				flags = 4 // which no version of bbolt has
			}
			for n, v := range []int{flags, at, 1, len(value)} {
				binary.NativeEndian.PutUint32(e[4*n:], uint32(v))
			}
		}
	}
	s := &salvager{ctx: t.Context(), f: bytes.NewReader(b), used: map[uint64]bool{}, torn: map[string]bool{},
		meta: meta{pageSize: size, pages: 6}}
	if err := s.walk(2, 0, nil, nil, blobsBucket); err != nil {
		t.Fatal(err)
	}
	var kept []byte
	for _, r := range s.queue {
		kept = append(kept, r.key...)
	}
	if string(kept) != "dfz" || len(s.faults) != 8 {
		t.Errorf("kept %q, with the faults %q", kept, s.faults)
	}
}

// Where it is not known how many records there were, that is said, and those that are there are taken.
func TestSalvage_TallyIsDamaged_IsReported(t *testing.T) {
	db := opened(t)
	blobs(t, db, 3)
	if err := db.direct(func(tx *bbolt.Tx) error { return spoilTally(tx, blobsBucket) }); err != nil {
		t.Fatal(err)
	}
	kill(t, db)
	r, records, err := salvage(t, db.path)
	isSaid := slices.ContainsFunc(r.Faults, func(f string) bool { return strings.HasPrefix(f, "the tally of the bucket tools: ") })
	if err != nil || !isSaid || records[blobsBucket+nul+"blob101"] == "" {
		t.Errorf("%+v, %v", r, err)
	}
}
