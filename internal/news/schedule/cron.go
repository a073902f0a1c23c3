package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"

	"ravenbot/internal/core/text"
)

// fieldNames are the five fields in their order, for errors.
var fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}

// isCron tells cron from words: in cron the first two fields, minute and hour, have no letters, and more follow them.
func isCron(text string) bool {
	fields := strings.Fields(text)
	for i, field := range fields {
		if i < 2 && strings.Trim(field, "0123456789*?,-/") != "" {
			return text[0] == '@'
		}
	}
	return len(fields) == 0 || len(fields) > 2 || strings.ContainsAny(text, "*?")
}

// parseCron parses a cron expression or a name such as @daily. It returns one rule, and an error that names the field.
func parseCron(text string) ([]rule, error) {
	if strings.HasPrefix(text, "@") {
		parsed, err := cron.ParseStandard(strings.ToLower(text))
		spec, ok := parsed.(*cron.SpecSchedule) // "@every 1h" is of another type
		if err != nil || !ok {
			return nil, errors.New("unknown name; known are @hourly, @daily, @weekly, @monthly, @yearly")
		}
		return []rule{{minute: spec.Minute, hour: spec.Hour & allHours, dom: spec.Dom & allDates, month: spec.Month & allMonths,
			dow: spec.Dow & allWeekdays, anyDay: true, elapsed: strings.EqualFold(text, "@hourly")}}, nil
	}
	fields := strings.Fields(text)
	if len(fields) != len(fieldNames) {
		return nil, fmt.Errorf("want 5 fields (minute hour day-of-month month day-of-week), got %d; or use words: %s",
			len(fields), examples)
	}
	fields[4] = replaceSunday7(fields[4])
	// crontab(5): where one day field is a star, both have to match; where neither is, one is enough.
	r := rule{anyDay: isStar(fields[2]) || isStar(fields[4]), elapsed: isPlainStar(fields[1])}
	for i, dst := range []*uint64{&r.minute, &r.hour, &r.dom, &r.month, &r.dow} {
		set, err := parseField(i, fields[i])
		if err != nil {
			return nil, fmt.Errorf("%s field %q: %w", fieldNames[i], fields[i], err)
		}
		*dst = set & fieldMasks[i]
	}
	return []rule{r}, nil
}

// fieldMasks are the values that each field may have. The parser marks stars by a bit beyond them.
var fieldMasks = [5]uint64{allMinutes, allHours, allDates, allMonths, allWeekdays}

// parseField parses one field alone, so that the parser's error belongs to that field.
func parseField(index int, field string) (uint64, error) {
	// robfig/cron accepts these mistakes and reads them as something else.
	for part := range strings.SplitSeq(field, ",") {
		if part == "" {
			return 0, fmt.Errorf("an entry of the list is empty")
		}
		if len(part) > 1 && isStar(part) && part[1] != '/' {
			return 0, fmt.Errorf("%q: only \"/n\" may follow a star", part)
		}
		// A step beyond the field is no error to the parser, and due when the field begins again.
		_, step, _ := strings.Cut(part, "/")
		if n, _ := strconv.Atoi(step); isStar(part) && n > bits.OnesCount64(fieldMasks[index]) {
			return 0, fmt.Errorf("%q: the step is longer than the field; use words, such as \"every 90 minutes\"", part)
		}
	}
	probe := [5]string{"*", "*", "*", "*", "*"}
	probe[index] = field
	parsed, err := cron.ParseStandard(strings.Join(probe[:], " "))
	switch {
	case err != nil && strings.Contains(err.Error(), "strconv"): // which says nothing to users
		return 0, errors.New("it has a value that is not understood; extensions such as L, W and # have words, such as " +
			"\"last friday of the month at 9\"")
	case err != nil:
		return 0, err
	}
	spec := parsed.(*cron.SpecSchedule) // only names such as @every are of another type
	return [5]uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}[index], nil
}

// isStar reports whether a field restricts nothing by its first value; isPlainStar also that there is no other one.
func isStar(field string) bool { return strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") }

func isPlainStar(field string) bool { return isStar(field) && !strings.Contains(field, ",") }

// sundayRange matches a range of weekdays that ends with Sunday as 7.
var sundayRange = text.Pattern(`^([0-7])-7(?:/([1-9]))?$`)

// replaceSunday7 rewrites the weekday 7, which crontab(5) knows and the parser does not: "7" becomes "0", "5-7"
// becomes "5,6,0".
func replaceSunday7(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		if m := sundayRange().FindStringSubmatch(part); m != nil {
			by, _ := strconv.Atoi(cmp.Or(m[2], "1"))
			var days []string
			for day := int(m[1][0] - '0'); day <= 7; day += by {
				days = append(days, strconv.Itoa(day%7))
			}
			parts[i] = strings.Join(days, ",")
		} else if part == "7" || strings.HasPrefix(part, "7/") {
			parts[i] = "0"
		}
	}
	return strings.Join(parts, ",")
}
