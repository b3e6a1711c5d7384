package descriptors

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const keyPolicy = `
domain: t
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - key: c
        rate_limit: {unit: hour, requests_per_unit: 3}
  - key: a
    value: dir/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - {key: c, rate_limit: {unit: hour, requests_per_unit: 3}}
  - key: many
    rate_limits:
      - {unit: minute, requests_per_unit: 1}
      - {unit: hour, requests_per_unit: 1}
      - {unit: hour, requests_per_unit: 1, name: x}
      - {unit: hour, requests_per_unit: 1, algorithm: token_bucket}
      - {unit: day, requests_per_unit: 1}
      - {unit: day, requests_per_unit: 1, calendar: true}
      - {unit: day, requests_per_unit: 1, calendar: true, time_zone: Europe/Paris}
      - {unit: day, requests_per_unit: 1, calendar: true, time_zone: Europe/Berlin}
`

// keysOf returns the keys of all limits that a descriptor meets.
func keysOf(t testing.TB, d *Domain, list []Entry) []string {
	t.Helper()
	rule := d.Match(list)
	if rule == nil {
		t.Fatalf("no rule for %q", list)
	}
	var keys []string
	for _, l := range rule.Limits {
		keys = append(keys, string(l.AppendKey(nil, list)))
	}
	return keys
}

// TestKeysAreWhatTheyWere holds the keys of running installations: a change
// here forgets every count.
func TestKeysAreWhatTheyWere(t *testing.T) {
	domain := compile(t, keyPolicy).Domains()[0]
	var b strings.Builder
	for _, text := range []string{
		"a=", "a=b", "a=b,c=e", "a=b_c_e", "a={b}", "a=dir/1", "a=dir/*", "a=dir/1,c=e", "many=x",
		"a=" + strings.Repeat("x", 230), "a=" + strings.Repeat("x", 231), "a=" + strings.Repeat("x", 10_000),
	} {
		for _, key := range keysOf(t, domain, entries(text)) {
			fmt.Fprintf(&b, "%-24.24s %q\n", text, key)
		}
	}
	for _, o := range []Override{{5, 1, 0}, {6, 2, 1}, {7, 2, 5}, {8, 6, 100}} {
		l, ok := domain.Override(o)
		if !ok {
			t.Fatal(o)
		}
		fmt.Fprintf(&b, "%-24.24s %q\n", fmt.Sprint("a=b with ", o), domain.AppendOverrideKey(nil, l, entries("a=b")))
	}
	for _, region := range []string{"eu-west", "us"} {
		domain := inRegion(t, region, keyPolicy)
		fmt.Fprintf(&b, "%-24.24s %q\n", "a=b in "+region, keysOf(t, domain, entries("a=b"))[0])
		l, _ := domain.Override(Override{7, 2, 5})
		fmt.Fprintf(&b, "%-24.24s %q\n", "a=b with {7 2 5} in "+region, domain.AppendOverrideKey(nil, l, entries("a=b")))
	}
	golden(t, "keys", b.String())
}

// inRegion compiles a policy of one domain.
func inRegion(t testing.TB, region, policy string) *Domain {
	t.Helper()
	rules, err := Compile([]File{{Name: "a.yaml", Text: []byte(policy)}}, Options{Region: region})
	if err != nil {
		t.Fatal(err)
	}
	return rules.Domains()[0]
}

// TestDifferentThingsHaveDifferentKeys takes many descriptors over an alphabet
// of separators, and every limit and override that they can meet in some
// regions, or where there are none.
func TestDifferentThingsHaveDifferentKeys(t *testing.T) {
	const policy = `
domain: t
descriptors:
  - key: a
    rate_limits: &limits
      - {unit: hour, requests_per_unit: 3}
      - {unit: hour, requests_per_unit: 3, name: n}
      - {unit: hour, requests_per_unit: 9, region: shared}
      - {unit: hour, requests_per_unit: 9, name: n, region: shared}
      - {unit: day, requests_per_unit: 9, region: shared}
    descriptors: &below
      - {key: a, rate_limits: *limits}
      - {key: "1:a", rate_limits: *limits}
      - {key: "{", rate_limits: *limits}
  - key: "1:a"
    rate_limits: *limits
    descriptors: *below
`
	var domains []*Domain
	for _, region := range []string{"", "eu", "us", "1:n", "0:"} {
		domains = append(domains, inRegion(t, region, policy))
	}
	const alphabet = "ab_.:|{}1/!\x00\xff"
	random := rand.New(rand.NewPCG(3, 4))
	word := func() []byte {
		w := make([]byte, random.IntN(5))
		for i := range w {
			w[i] = alphabet[random.IntN(len(alphabet))]
		}
		return w
	}
	keyNames := []string{"a", "1:a", "{"}
	seen := make(map[string]string)
	check := func(key []byte, what string) {
		if other, ok := seen[string(key)]; ok && other != what {
			t.Fatalf("%s and %s share the key %q", what, other, key)
		}
		seen[string(key)] = what
	}
	for range 30_000 {
		list := []Entry{{[]byte(keyNames[random.IntN(2)]), word()}}
		if random.IntN(2) == 0 {
			list = append(list, Entry{[]byte(keyNames[random.IntN(3)]), word()})
		}
		domain := domains[random.IntN(len(domains))]
		for i, l := range domain.Match(list).Limits {
			check(l.AppendKey(nil, list), fmt.Sprintf("%q limit %d in %q", list, i, l.Region))
		}
		o := Override{Unit: 1 + random.Int32N(2), Multiplier: 1 + random.Uint32N(3)}
		l, _ := domain.Override(o)
		check(domain.AppendOverrideKey(nil, l, list), fmt.Sprintf("%q window %v in %q", list, l.Limit.Window, l.Region))
	}
}

// TestIdentityOfALimit says what starts a count anew and what does not.
func TestIdentityOfALimit(t *testing.T) {
	key := func(file, text string) string {
		rules, err := Compile([]File{{Name: file, Text: []byte(text)}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return keysOf(t, rules.Domains()[0], entries("a=v"))[0]
	}
	const base = "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}]"
	for _, row := range []struct {
		what, file, text string
		same             bool
	}{
		{"another number of requests", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 9}}]", true},
		{"another file and position", "y", "domain: t\ndescriptors: [{key: b}, {key: a, rate_limit: {unit: day, requests_per_unit: 3}}]", true},
		{"the same window in other words", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {window: 24h, requests_per_unit: 3}}]", true},
		{"a name", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, name: n}}]", true},
		{"a second limit", "x", "domain: t\ndescriptors: [{key: a, rate_limits: [{unit: day, requests_per_unit: 3, name: n}, {unit: hour, requests_per_unit: 3}]}]", true},
		{"overdraw and policy", "x", "domain: t\ndescriptors: [{key: a, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 3, overdraw: true, on_store_error: deny, priority: critical}}]", true},
		{"a region, where there are none", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, region: own}}]", true},
		{"no region, where there are none", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, region: shared}}]", true},
		{"another counting", "x", "domain: t\ncounting: reference\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}]", true},
		{"another window", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 3}}]", false},
		{"another algorithm", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, algorithm: leaky_bucket}}]", false},
		{"a calendar", "x", "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, calendar: true}}]", false},
		{"another domain", "x", "domain: u\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}]", false},
		{"another path", "x", "domain: t\ndescriptors: [{key: a, value: v, rate_limit: {unit: day, requests_per_unit: 3}}]", false},
		{"a pattern", "x", "domain: t\ndescriptors: [{key: a, value: v*, rate_limit: {unit: day, requests_per_unit: 3}}]", false},
	} {
		if same := key(row.file, row.text) == key("x", base); same != row.same {
			t.Errorf("%s: same key is %v, want %v", row.what, same, row.same)
		}
	}
}

// TestRegions compares the keys of two regions with one another, and with those
// where there are no regions.
func TestRegions(t *testing.T) {
	for _, row := range []struct {
		said            string // of the limit
		regional        bool
		defaults        string
		regionalBrought bool // of a limit that comes with the request
	}{
		{"", true, "", true},
		{", region: own", true, "", true},
		{", region: shared", false, "", true},
		{"", false, "region: shared", false},
		{", region: own", true, "region: shared", false},
		{", region: shared", false, "region: own", true},
	} {
		policy := "domain: t\ndefaults: {" + row.defaults + "}\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3" + row.said + "}}]"
		keys := func(region string) (rule, brought string) {
			domain := inRegion(t, region, policy)
			l, _ := domain.Override(Override{5, 1, 1})
			return keysOf(t, domain, entries("a=v"))[0], string(domain.AppendOverrideKey(nil, l, entries("a=v")))
		}
		none, noneBrought := keys("")
		eu, euBrought := keys("eu")
		us, usBrought := keys("us")
		if differ := eu != us; differ != row.regional || (eu != none) != row.regional || (us != none) != row.regional {
			t.Errorf("%+v: keys %q without regions, %q in one, %q in another", row, none, eu, us)
		}
		if differ := euBrought != usBrought; differ != row.regionalBrought || (euBrought != noneBrought) != row.regionalBrought {
			t.Errorf("%+v: brought along: keys %q without regions, %q in one, %q in another", row, noneBrought, euBrought, usBrought)
		}
		if eu[:4] != none[:4] || euBrought[:4] != none[:4] {
			t.Errorf("%+v: a region moves the slot: %q and %q, not that of %q", row, eu, euBrought, none)
		}
	}
}

func TestBucketKeepsItsCountWhenTheBurstChanges(t *testing.T) {
	key := func(burst string) string {
		d := compile(t, "domain: t\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, algorithm: token_bucket"+burst+"}}]").Domains()[0]
		return keysOf(t, d, entries("a=v"))[0]
	}
	if key("") != key(", burst: 9") {
		t.Error("another burst has another key")
	}
}

func TestSharedThreshold(t *testing.T) {
	domain := compile(t, keyPolicy).Domains()[0]
	key := func(text string) string { return keysOf(t, domain, entries(text))[0] }
	if key("a=dir/1") != key("a=dir/2") || key("a=dir/1") != key("a=dir/*") {
		t.Error("values of a shared pattern have different counters")
	}
	if key("a=dir/1,c=1") != key("a=dir/2,c=1") {
		t.Error("the limit below a shared pattern does not share")
	}
	if key("a=dir/1,c=1") == key("a=dir/1,c=2") {
		t.Error("an entry that does not share shares")
	}
	if key("a=x") == key("a=y") {
		t.Error("a rule without a pattern shares")
	}
}

var slotForm = regexp.MustCompile(`^\{[0-9a-f]{2}\}[1-4]`)

// TestOnlyTheBeginningMovesTheSlot checks the part of a key that Redis Cluster
// hashes: between the first { and the } after it.
func TestOnlyTheBeginningMovesTheSlot(t *testing.T) {
	domain := compile(t, keyPolicy).Domains()[0]
	slots := make(map[string]int)
	for i := range 20_000 {
		list := entries(fmt.Sprintf("a=user-%d", i))
		key := keysOf(t, domain, list)[0]
		if !slotForm.MatchString(key) {
			t.Fatalf("%q", key)
		}
		slots[key[:4]]++
		below := slices.Concat(list, []Entry{{[]byte("c"), fmt.Appendf(nil, "}{%d{}", i)}})
		if other := keysOf(t, domain, below)[0]; other[:4] != key[:4] {
			t.Fatalf("%q and %q begin alike and are in different slots", key, other)
		}
	}
	if len(slots) != 256 {
		t.Errorf("20,000 users are in %d slots, want 256", len(slots))
	}
	for slot, n := range slots {
		if n > 2*20_000/256 {
			t.Errorf("slot %s has %d of 20,000 users", slot, n)
		}
	}
}

func TestLongKeysAreHashed(t *testing.T) {
	domain := compile(t, keyPolicy).Domains()[0]
	seen := make(map[string]int)
	for _, n := range []int{0, 1, 100, 200, 230, 231, 256, 257, 4096, 4097, 8100, 8190, 8200, 10_000, 1 << 20} {
		list := entries("a=" + strings.Repeat("x", n))
		key := keysOf(t, domain, list)[0]
		if len(key) > len("{00}1")+longestBody {
			t.Errorf("a value of %d bytes has a key of %d", n, len(key))
		}
		if other, ok := seen[key]; ok {
			t.Errorf("values of %d and %d bytes share the key %q", n, other, key)
		}
		seen[key] = n
		if prefixed := keysWithPrefix(domain, list, []byte("before")); prefixed != "before"+key {
			t.Errorf("a value of %d bytes: got %q after what was there, want %q", n, prefixed, key)
		}
	}
}

func keysWithPrefix(d *Domain, list []Entry, dst []byte) string {
	return string(d.Match(list).Limits[0].AppendKey(dst, list))
}

// The two ways to hash a long key agree.
func TestLongKeysAreHashedTheSameWay(t *testing.T) {
	domain := compile(t, keyPolicy).Domains()[0]
	for _, text := range []string{"a=" + strings.Repeat("x", 300), "a=dir/1,c=" + strings.Repeat("y", 5000)} {
		list := entries(text)
		l := domain.Match(list).Limits[0]
		if whole, pieces := l.AppendKey(nil, list), l.appendLongKey(nil, list); !bytes.Equal(whole, pieces) {
			t.Errorf("%.20s…: %s and %s", text, hex.EncodeToString(whole), hex.EncodeToString(pieces))
		}
	}
}

// FuzzRegions: what is not shared is the same counter in the same region only.
func FuzzRegions(f *testing.F) {
	f.Add("eu", "us", []byte("v"), []byte("v"))
	f.Add("", "0:", []byte("v"), []byte("v"))
	f.Fuzz(func(t *testing.T, r1, r2 string, v1, v2 []byte) {
		const policy = "domain: t\ndescriptors: [{key: a, rate_limits: [{unit: day, requests_per_unit: 3}, {unit: day, requests_per_unit: 9, region: shared}]}]"
		one, two := []Entry{{[]byte("a"), v1}}, []Entry{{[]byte("a"), v2}}
		d1, d2 := inRegion(t, r1, policy), inRegion(t, r2, policy)
		k1, k2 := keysOf(t, d1, one), keysOf(t, d2, two)
		same := bytes.Equal(v1, v2)
		if (k1[0] == k2[0]) != (same && r1 == r2) || (k1[1] == k2[1]) != same || k1[0] == k1[1] || k1[0] == k2[1] {
			t.Errorf("%q of %q, %q of %q: keys %q and %q", v1, r1, v2, r2, k1, k2)
		}
		l1, _ := d1.Override(Override{5, 1, 1})
		l2, _ := d2.Override(Override{9, 1, 1})
		if o1, o2 := d1.AppendOverrideKey(nil, l1, one), d2.AppendOverrideKey(nil, l2, two); bytes.Equal(o1, o2) != (same && r1 == r2) {
			t.Errorf("%q of %q, %q of %q: keys of overrides %q and %q", v1, r1, v2, r2, o1, o2)
		}
	})
}

func FuzzKeys(f *testing.F) {
	domain := compile(f, keyPolicy).Domains()[0]
	f.Add([]byte("b"), []byte("e"), []byte("b_c_e"), []byte(""))
	f.Add([]byte("1:c1:e"), []byte(""), []byte(""), []byte("1:c1:e"))
	f.Add(bytes.Repeat([]byte("x"), 300), []byte("{"), []byte("}"), []byte("\xff\x00"))
	f.Add([]byte("dir/a"), []byte("x"), []byte("dir/b"), []byte("x"))
	f.Fuzz(func(t *testing.T, a1, c1, a2, c2 []byte) {
		one := []Entry{{[]byte("a"), a1}, {[]byte("c"), c1}}
		two := []Entry{{[]byte("a"), a2}, {[]byte("c"), c2}}
		k1, k2 := keysOf(t, domain, one)[0], keysOf(t, domain, two)[0]
		shared := bytes.HasPrefix(a1, []byte("dir/")) && bytes.HasPrefix(a2, []byte("dir/"))
		same := bytes.Equal(c1, c2) && (shared || bytes.Equal(a1, a2))
		if (k1 == k2) != same {
			t.Errorf("%q and %q: same key is %v, want %v", one, two, k1 == k2, same)
		}
		if k := keysOf(t, domain, one[:1])[0]; k == k1 || k == k2 {
			t.Errorf("%q and a longer descriptor share %q", one[:1], k)
		}
		if !slotForm.MatchString(k1) {
			t.Errorf("%q", k1)
		}
	})
}
