package descriptors

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const hidingPolicy = `
domain: t
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - {key: c, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: a, value: spelled-out, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: a, value: single/*, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: a, value: shared/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 3}}
`

// hide compiles a policy that hides values by a key.
func hide(t testing.TB, key, policy string) *Rules {
	t.Helper()
	rules, err := Compile([]File{{Name: "a.yaml", Text: []byte(policy)}}, Options{Hiding: NewHiding([]byte(key))})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// hiddenKeys returns the entries as hidden, and the key of the first limit and
// of an override.
func hiddenKeys(t testing.TB, rules *Rules, list []Entry) (hidden []Entry, rule, brought string) {
	t.Helper()
	domain := rules.Domains()[0]
	matched := domain.Match(list)
	if matched == nil {
		t.Fatalf("no rule for %q", list)
	}
	hidden, all := slices.Clone(list), slices.Clone(list)
	rules.Hide(nil, matched, hidden)
	rules.Hide(nil, nil, all)
	l, _ := domain.Override(Override{5, 1, 1})
	return hidden, string(matched.Limits[0].AppendKey(nil, hidden)), string(domain.AppendOverrideKey(nil, l, all))
}

// TestHiddenKeysAreWhatTheyWere holds the keys of running installations, as
// TestKeysAreWhatTheyWere does.
func TestHiddenKeysAreWhatTheyWere(t *testing.T) {
	rules := hide(t, "0123456789abcdef", hidingPolicy)
	var b strings.Builder
	for _, text := range []string{
		"a=", "a=b", "a=b,c=e", "a=spelled-out", "a=single/1", "a=single/*", "a=shared/1", "a=shared/2", "a=" + strings.Repeat("x", 10_000),
	} {
		list := entries(text)
		_, rule, brought := hiddenKeys(t, rules, list)
		fmt.Fprintf(&b, "%-24.24s %q\n%24s %q\n", text, rule, "brought along", brought)
	}
	fmt.Fprintf(&b, "fingerprint %s\n", rules.hiding.Fingerprint())
	golden(t, "hidden_keys", b.String())
}

func TestNothingIsHiddenWithoutAKey(t *testing.T) {
	list := entries("a=b,c=e")
	rules := compile(t, hidingPolicy)
	if text := rules.Hide([]byte("before"), nil, list); string(text) != "before" || string(list[0].Value) != "b" || string(list[1].Value) != "e" {
		t.Errorf("got %q, %q", text, list)
	}
}

func TestAnotherKeyHasOtherHashes(t *testing.T) {
	one, two := hide(t, "0123456789abcdef", hidingPolicy), hide(t, "0123456789abcdeg", hidingPolicy)
	_, k1, o1 := hiddenKeys(t, one, entries("a=b"))
	_, k2, o2 := hiddenKeys(t, two, entries("a=b"))
	if k1 == k2 || o1 == o2 || one.hiding.Fingerprint() == two.hiding.Fingerprint() {
		t.Errorf("keys %q, %q and %q, %q; fingerprints %s and %s", k1, k2, o1, o2, one.hiding.Fingerprint(), two.hiding.Fingerprint())
	}
}

// TestHideKeepsWhatWasThere: the text before stays, and so do hashes when what
// comes after them is written into the same memory.
func TestHideKeepsWhatWasThere(t *testing.T) {
	rules := hide(t, "0123456789abcdef", hidingPolicy)
	list := entries("a=b,c=e")
	want, _, _ := hiddenKeys(t, rules, list)
	text := rules.Hide([]byte("before"), nil, list)
	_ = append(text, "after"...)
	if !bytes.HasPrefix(text, []byte("before")) || len(text) != len("before")+2*hiddenLength {
		t.Errorf("got %q", text)
	}
	for i := range list {
		if !bytes.Equal(list[i].Value, want[i].Value) {
			t.Errorf("entry %d: got %q, want %q", i, list[i].Value, want[i].Value)
		}
	}
}

// TestNoHashOfOnesOwnChoice: whoever sends the hash of another's value, where
// values are hidden or where they are not, has another counter.
func TestNoHashOfOnesOwnChoice(t *testing.T) {
	hidden, plain := hide(t, "0123456789abcdef", hidingPolicy), compile(t, hidingPolicy)
	as, key, brought := hiddenKeys(t, hidden, entries("a=b"))
	_, key2, brought2 := hiddenKeys(t, hidden, as)
	_, key3, brought3 := hiddenKeys(t, plain, as)
	if key == key2 || key == key3 || brought == brought2 || brought == brought3 {
		t.Errorf("%q, %q, %q and %q, %q, %q", key, key2, key3, brought, brought2, brought3)
	}
}

// FuzzHide: counters are the same with hidden values exactly where they are the
// same without, and no value is in their keys.
func FuzzHide(f *testing.F) {
	hidden, plain := hide(f, "0123456789abcdef", hidingPolicy), compile(f, hidingPolicy)
	f.Add([]byte("sk_live_4eC39HqLyjWDarjtT1zdp7dc"), []byte("x"), []byte("sk_live_4eC39HqLyjWDarjtT1zdp7dd"), []byte("x"))
	f.Add([]byte("spelled-out"), []byte(""), []byte("spelled-out"), []byte(""))
	f.Add([]byte("single/1"), []byte(""), []byte("single/*"), []byte(""))
	f.Add([]byte("shared/1"), []byte(""), []byte("shared/2"), []byte(""))
	f.Add([]byte(""), []byte(""), []byte("\x00"), []byte(""))
	f.Fuzz(func(t *testing.T, a1, c1, a2, c2 []byte) {
		for n := range 2 {
			one := []Entry{{[]byte("a"), a1}, {[]byte("c"), c1}}[:1+n]
			two := []Entry{{[]byte("a"), a2}, {[]byte("c"), c2}}[:1+n]
			if d := hidden.Domains()[0]; d.Match(one) == nil || d.Match(two) == nil {
				continue
			}
			h1, k1, o1 := hiddenKeys(t, hidden, one)
			h2, k2, o2 := hiddenKeys(t, hidden, two)
			_, p1, q1 := hiddenKeys(t, plain, one)
			_, p2, q2 := hiddenKeys(t, plain, two)
			if (k1 == k2) != (p1 == p2) || (o1 == o2) != (q1 == q2) {
				t.Errorf("%q and %q: keys %q and %q, without hiding %q and %q; brought along %q and %q, without %q and %q", one, two, k1, k2, p1, p2, o1, o2, q1, q2)
			}
			if k1 == o1 || k2 == o2 {
				t.Errorf("%q or %q shares with an override", k1, k2)
			}
			for _, secret := range [][]byte{a1, c1[:len(c1)*n], a2, c2[:len(c2)*n]} {
				begins := func(known string) bool { return strings.HasPrefix(known, string(secret)) }
				if slices.ContainsFunc([]string{"spelled-out", "shared/*", "single/*"}, begins) || len(secret) < 6 { // as good as any text of a hash
					continue
				}
				if text := fmt.Sprintf("%s%s%s%s%s%s", k1, k2, o1, o2, h1, h2); strings.Contains(text, string(secret)) {
					t.Errorf("%q is in %q", secret, text)
				}
			}
			if !slotForm.MatchString(k1) || k1[4] != '3' && k1[4] != '4' {
				t.Errorf("%q", k1)
			}
		}
	})
}

func BenchmarkHide(b *testing.B) {
	rules := hide(b, "0123456789abcdef0123456789abcdef", hidingPolicy)
	for _, n := range []int{10, 36, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			request := entries("a=" + strings.Repeat("x", n))
			value := request[0].Value
			rule := rules.Domains()[0].Match(request)
			text := make([]byte, 0, 300)
			b.ReportAllocs()
			for b.Loop() {
				request[0].Value = value
				text = rules.Hide(text[:0], rule, request)
			}
		})
	}
}
