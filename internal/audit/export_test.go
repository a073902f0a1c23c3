package audit

// Hash returns the hash of an entry.
func Hash(e Entry) string { return e.computeHash() }
