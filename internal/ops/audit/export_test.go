package audit

// MaxWaiting is how many entries wait for the store at most.
const MaxWaiting = maxWaiting

// Hash returns the hash of an entry.
func Hash(e Entry) string { return e.computeHash() }
