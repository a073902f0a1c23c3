package workers

const MaxIdle = maxIdle

// Idle returns how many goroutines wait.
func (g *Group) Idle() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.idle)
}
