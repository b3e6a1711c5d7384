// Package descriptors finds the limits and counter keys of a descriptor.
//
// [Compile] turns policy files into immutable [Rules]. A request then takes
// three steps, none of which allocates: [Rules.Domain] finds the domain,
// [Domain.Match] the rule of one descriptor, and [Limit.AppendKey] writes the
// counter key of each of the rule's limits.
//
// # Matching
//
// A descriptor is a list of entries. They are compared in order with the tree
// of the domain, one level per entry, key with key and value with value. At
// each level one node is chosen among those with the entry's key:
//
//  1. the node whose value is the entry's value,
//  2. the most specific pattern that matches the value, where the domain
//     counts precisely, or the first in file order, where it counts as
//     envoyproxy/ratelimit does,
//  3. the node without a value.
//
// The rule is that of the node which the last entry chose. A choice is final:
// where it leads nowhere, the descriptor has no rule, and no other node of an
// upper level is tried. This is how envoyproxy/ratelimit chooses, and a file
// means the same here.
//
// A value with a * is a pattern. Each * stands for any bytes, also none. Of two
// patterns the more specific has more bytes beside the *; then the longer text
// before its first *; then fewer *; then the smaller text, byte by byte. A * in
// a key is no pattern.
package descriptors
