package feed

import "time"

func parseDate(string) time.Time { return time.Time{} }
