package billing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"time"
)

// Tariff is what a consumption costs in a month. It is not changed after it was
// read and may be used concurrently.
type Tariff struct {
	name, source, currency string
	from, to               string // dates as 2006-01-02; to may be empty: it is in force
	minimum                int64  // sen
	blocks                 []block
}

// block is a price for what is consumed above the block before.
type block struct {
	upTo *big.Rat // kWh; nil: all the rest
	rate *big.Rat // sen per kWh
}

// largest is the size of a tariff file, in bytes, above which it is none.
const largest = 64 << 10

// Load reads a tariff file.
func Load(path string) (*Tariff, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read tariff: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return nil, fmt.Errorf("read tariff: %w", err)
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read tariff %s: %w", path, err)
	}
	return t, nil
}

// layout is a tariff file.
type layout struct {
	Name      string  `json:"name"`
	Source    string  `json:"source"`
	ValidFrom string  `json:"validFrom"`
	ValidTo   string  `json:"validTo"`
	Currency  string  `json:"currency"`
	Minimum   decimal `json:"minimumCharge"`
	Blocks    []struct {
		UpTo decimal `json:"upToKWh"`
		Rate decimal `json:"senPerKWh"`
	} `json:"blocks"`
}

// parse reads and checks a tariff. Unknown fields are errors: a misspelt one would change sums in
// silence.
func parse(text []byte) (*Tariff, error) {
	if len(text) > largest {
		return nil, fmt.Errorf("it is larger than %d KiB", largest>>10)
	}
	var l layout
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the closing brace")
	}
	t := &Tariff{name: l.Name, source: l.Source, currency: l.Currency, from: l.ValidFrom, to: l.ValidTo}
	if err := t.checkHead(); err != nil {
		return nil, err
	}
	if l.Minimum.Rat != nil {
		if !whole(l.Minimum.Rat, 2) {
			return nil, errors.New("minimumCharge has a part of a sen")
		}
		t.minimum = round(new(big.Rat).Mul(l.Minimum.Rat, big.NewRat(100, 1)))
	}
	for _, b := range l.Blocks {
		t.blocks = append(t.blocks, block{b.UpTo.Rat, b.Rate.Rat})
	}
	return t, t.checkBlocks()
}

// checkHead returns what is wrong with the description of a tariff.
func (t *Tariff) checkHead() error {
	if t.name == "" || t.source == "" || t.currency == "" {
		return errors.New("name, source and currency are needed")
	}
	if _, err := time.Parse(time.DateOnly, t.from); err != nil {
		return fmt.Errorf("validFrom is %q, want a date such as 2014-01-01", t.from)
	}
	if _, err := time.Parse(time.DateOnly, t.to); t.to != "" && (err != nil || t.to < t.from) {
		return fmt.Errorf("validTo is %q, want a date after validFrom, or nothing while the tariff is in force", t.to)
	}
	return nil
}

// maxBlocks is more than any tariff has.
const maxBlocks = 100

// checkBlocks returns what is wrong with the blocks: they have to rise and to end without a bound,
// and the last has to cost something.
func (t *Tariff) checkBlocks() error {
	if len(t.blocks) == 0 || len(t.blocks) > maxBlocks {
		return fmt.Errorf("it has %d blocks, want 1 to %d", len(t.blocks), maxBlocks)
	}
	before := new(big.Rat)
	for n, b := range t.blocks {
		last := n == len(t.blocks)-1
		switch {
		case b.rate == nil:
			return fmt.Errorf("block %d has no senPerKWh", n+1)
		case last && b.upTo != nil:
			return errors.New("the last block ends at upToKWh, but consumption does not: write null")
		case last && b.rate.Sign() == 0:
			return errors.New("the last block costs nothing, so no bill would lead back to a consumption")
		case !last && (b.upTo == nil || b.upTo.Cmp(before) <= 0):
			return fmt.Errorf("block %d does not end above the block before", n+1)
		}
		before = b.upTo
	}
	return nil
}

// line is the part of a bill that one block makes.
type line struct {
	kwh, rate, cost *big.Rat // cost in sen, exact
}

// lines takes a consumption apart.
func (t *Tariff) lines(kwh *big.Rat) []line {
	var list []line
	from := new(big.Rat)
	for _, b := range t.blocks {
		to := kwh
		if b.upTo != nil && b.upTo.Cmp(kwh) < 0 {
			to = b.upTo
		}
		if to.Cmp(from) <= 0 {
			break
		}
		part := new(big.Rat).Sub(to, from)
		list = append(list, line{part, b.rate, new(big.Rat).Mul(part, b.rate)})
		from = to
	}
	return list
}

// bill is what a consumption costs, in sen: the exact sum, rounded half up, and no
// less than the minimum.
func (t *Tariff) bill(kwh *big.Rat) int64 {
	sum := new(big.Rat)
	for _, l := range t.lines(kwh) {
		sum.Add(sum, l.cost)
	}
	// Rounded once: lines that were rounded one by one could add up to another total.
	return max(round(sum), t.minimum)
}

// step is a consumption of n hundredths of a kWh.
func step(n int64) *big.Rat { return big.NewRat(n, 100) }

// first gives the fewest hundredths of a kWh that are billed at least sum sen. There
// always are some, for the last block costs something and a bill never falls.
func (t *Tariff) first(sum int64) int64 {
	low, high := int64(-1), int64(1) // low is billed less; -1 stands for before nothing
	for t.bill(step(high)) < sum {
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := (low + high) / 2; middle >= 0 && t.bill(step(middle)) < sum {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
