package egress

import (
	"net/netip"
	"slices"
)

// These are the blocks of the IANA special-purpose address registries (IPv4 and IPv6) that are not globally
// reachable, and the multicast blocks. The few global exceptions inside 192.0.0.0/24 and 2001::/23 are anycast
// services that nobody serves web pages from, so they stay blocked.
var (
	blockedV4 = mustParsePrefixes(
		"0.0.0.0/8",          // this network
		"10.0.0.0/8",         // private use
		"100.64.0.0/10",      // shared by carriers; also a cloud's metadata service
		"127.0.0.0/8",        // loopback
		"168.63.129.16/32",   // a cloud's host agent, on a public address
		"169.254.0.0/16",     // link local, cloud metadata
		"172.16.0.0/12",      // private use
		"192.0.0.0/24",       // protocol assignments
		"192.0.2.0/24",       // documentation
		"192.88.99.0/24",     // former 6to4 relays
		"192.168.0.0/16",     // private use
		"198.18.0.0/15",      // benchmarking
		"198.51.100.0/24",    // documentation
		"203.0.113.0/24",     // documentation
		"224.0.0.0/4",        // multicast
		"240.0.0.0/4",        // reserved
		"255.255.255.255/32", // broadcast
	)
	blockedV6 = mustParsePrefixes(
		"2001::/23",     // protocol assignments: Teredo, benchmarking, ORCHID
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4, which embeds any IPv4 address
		"3fff::/20",     // documentation
	)
	// publicV6 is the only space that is assigned to public hosts. Everything else (loopback, mapped, unique local,
	// link local, 64:ff9b:1::/48, discard-only, segment routing, multicast) is blocked by not being in it.
	publicV6 = netip.MustParsePrefix("2000::/3")
	// nat64 leads to the IPv4 address in its last 32 bits. It must stay usable: on an IPv6-only network every IPv4
	// host is reached through it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// mustParsePrefixes returns networks, and panics for a text that is none.
func mustParsePrefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// isPublic reports whether the address belongs to the public Internet.
func isPublic(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	// What counts is where NAT64 translates the address to.
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	blocked := blockedV4
	if addr.Is6() {
		if !publicV6.Contains(addr) {
			return false
		}
		blocked = blockedV6
	}
	return addr.IsValid() && !slices.ContainsFunc(blocked, func(b netip.Prefix) bool { return b.Contains(addr) })
}
