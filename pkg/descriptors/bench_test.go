package descriptors

import (
	"fmt"
	"strings"
	"testing"
)

// list makes a policy of n descriptors.
func list(n int, descriptor func(i int) string) string {
	var b strings.Builder
	b.WriteString("domain: t\ndescriptors:\n")
	for i := range n {
		b.WriteString("  - " + descriptor(i) + "\n")
	}
	return b.String()
}

const benchLimit = "rate_limit: {unit: hour, requests_per_unit: 1}"

func BenchmarkMatch(b *testing.B) {
	exact := func(i int) string { return fmt.Sprintf("{key: user, value: user-%d, %s}", i, benchLimit) }
	prefix := func(i int) string { return fmt.Sprintf("{key: path, value: \"/service-%d/*\", %s}", i, benchLimit) }
	infix := func(i int) string { return fmt.Sprintf("{key: path, value: \"/service-%d/*/x\", %s}", i, benchLimit) }
	keyOnly := func(i int) string { return fmt.Sprintf("{key: key-%d, %s}", i, benchLimit) }
	for _, row := range []struct{ name, policy, request string }{
		{"exact/1", list(1, exact), "user=user-0"},
		{"exact/1000", list(1000, exact), "user=user-500"},
		{"exact/10000", list(10_000, exact), "user=user-5000"},
		{"key/1", list(1, keyOnly), "key-0=10.0.0.1"},
		{"key/1000", list(1000, keyOnly), "key-500=10.0.0.1"},
		{"key/10000", list(10_000, keyOnly), "key-5000=10.0.0.1"},
		{"prefix/1", list(1, prefix), "path=/service-0/v1/things"},
		{"prefix/8", list(8, prefix), "path=/service-4/v1/things"},
		{"prefix/1000", list(1000, prefix), "path=/service-500/v1/things"},
		{"prefix/10000", list(10_000, prefix), "path=/service-5000/v1/things"},
		{"infix/8", list(8, infix), "path=/service-4/v1/x"},
		{"infix/1000", list(1000, infix), "path=/service-500/v1/x"},
		{"none", list(1000, exact), "user=nobody"},
		{"nested", "domain: t\ndescriptors: [{key: plan, value: free, descriptors: [{key: path, value: /api/*, descriptors: [{key: user, " + benchLimit + "}]}]}]",
			"plan=free,path=/api/v1/things,user=u1"},
	} {
		b.Run(row.name, func(b *testing.B) {
			domain := compile(b, row.policy).Domains()[0]
			request := entries(row.request)
			if matched := domain.Match(request) != nil; matched != (row.name != "none") {
				b.Fatal(matched)
			}
			b.ReportAllocs()
			for b.Loop() {
				domain.Match(request)
			}
		})
	}
}

func BenchmarkAppendKey(b *testing.B) {
	domain := compile(b, keyPolicy).Domains()[0]
	for _, n := range []int{10, 100, 1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			request := entries("a=" + strings.Repeat("x", n))
			limit := domain.Match(request).Limits[0]
			key := make([]byte, 0, 2000)
			b.ReportAllocs()
			for b.Loop() {
				key = limit.AppendKey(key[:0], request)
			}
		})
	}
}

func BenchmarkOverride(b *testing.B) {
	domain := compile(b, keyPolicy).Domains()[0]
	b.ReportAllocs()
	for b.Loop() {
		domain.Override(Override{5, 2, 1})
	}
}

func BenchmarkCompile(b *testing.B) {
	text := []byte(list(10_000, func(i int) string { return fmt.Sprintf("{key: user, value: user-%d, %s}", i, benchLimit) }))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile([]File{{Name: "a.yaml", Text: text}}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
