//go:build !linux

package mcp

// usageOf returns zero: there is no /proc to read.
func usageOf(int) groupUsage { return groupUsage{} }
