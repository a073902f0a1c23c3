package workers

const MaxIdle = maxIdle

// Idle returns the number of waiting goroutines.
func (g *Group) Idle() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.idle)
}
