package billing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"ravenbot/internal/core/text"
)

// decimal is a number as it was written, without the rounding of a float. The zero
// value is none given.
type decimal struct{ *big.Rat }

// places is how many decimals a number may have. A product of two in sen, written in
// ringgit, then has at most shown.
const (
	places = 6
	shown  = 2*places + 2
)

// most is the largest number taken, of whatever: it keeps every sum within an int64
// of sen.
const most = 1_000_000

// written bounds the exponent: 1e999999999 would take for ever.
var written = text.Pattern(`^-?[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?$`)

// UnmarshalJSON takes a number, also one in quotes.
func (d *decimal) UnmarshalJSON(text []byte) error {
	s := string(bytes.TrimSpace(text))
	if s == "null" {
		return nil
	}
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	}
	if !written().MatchString(s) {
		return fmt.Errorf("%.40q is not a decimal number", s)
	}
	r, ok := new(big.Rat).SetString(s)
	switch {
	case !ok:
		return fmt.Errorf("%.40q is not a decimal number", s)
	case r.Sign() < 0 || r.Cmp(big.NewRat(most, 1)) > 0:
		return fmt.Errorf("%s is not between 0 and %d", s, most)
	case !whole(r, places):
		return fmt.Errorf("%s has more than %d decimals", s, places)
	}
	d.Rat = r
	return nil
}

// whole reports whether r has at most n decimals.
func whole(r *big.Rat, n int64) bool {
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil)
	return new(big.Rat).Mul(r, new(big.Rat).SetInt(ten)).IsInt()
}

// round gives the integer next to r, which is not negative; a half goes up.
func round(r *big.Rat) int64 {
	twice := new(big.Int).Lsh(r.Num(), 1)
	twice.Add(twice, r.Denom())
	return twice.Div(twice, new(big.Int).Lsh(r.Denom(), 1)).Int64()
}

// plain writes r in full, with at least least decimals.
func plain(r *big.Rat, least int) string {
	s := r.FloatString(shown)
	for keep := len(s) - shown + least; len(s) > keep && strings.HasSuffix(s, "0"); {
		s = s[:len(s)-1]
	}
	return strings.TrimSuffix(s, ".")
}
