//go:build !linux

package mcp

// usageOf returns zero: there is no /proc to read.
func usageOf(int) groupUsage { return groupUsage{} }

// describeUsageLimits returns that there are none.
func (s *stdioTransport) describeUsageLimits() string {
	return "its memory and processes are not limited"
}
