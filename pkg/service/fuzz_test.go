package service

import (
	"testing"
)

// FuzzRequests sends any bytes through the whole service, beside a request that
// is right. Nothing but a request that cannot be right gets an error, and every
// reply is as the oracle says and can be sent: a string in it that is not UTF-8
// would become an error, which lets the request through.
func FuzzRequests(f *testing.F) {
	request := everything
	request.Domain = []byte("t")
	request.Descriptors = append([]anyDescriptor{
		{Entries: entries("base", "s\xff")}, {Entries: entries("user", "", "path", "\x00")}, {Entries: entries("queue", "s"), HasHits: true, Hits: 1 << 63},
	}, request.Descriptors[:3]...)
	f.Add(encode(&request))
	f.Add(encode(&anyRequest{Domain: []byte("t\xff"), Descriptors: []anyDescriptor{{Entries: entries("\xff", "\xff")}}}))
	o := DefaultOptions()
	o.Metadata, o.Body, o.MaxDescriptors = true, true, 16
	o.Headers.Triple, o.Headers.XTriple, o.Headers.Delay = true, true, true
	recorded := &recorder{next: newMemory()}
	s, err := New(recorded, o, nil)
	if err != nil {
		f.Fatal(err)
	}
	oracle := &oracle{options: o, rules: compile(f, mixedPolicy("precise"))}
	s.SetRules(oracle.rules)
	right := encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("base", "right")}}})
	f.Fuzz(func(t *testing.T, wire []byte) {
		exchanges := []Exchange{{Request: right}, {Request: wire, Strict: true, Reply: []byte("before")}, {Request: right}}
		recorded.asks, recorded.decisions = nil, nil
		s.Answer(t.Context(), exchanges)
		if exchanges[0].Err != nil || exchanges[2].Err != nil {
			t.Fatal(exchanges[0].Err, exchanges[2].Err)
		}
		var b batch
		if b.decode(wire).malformed {
			equal(t, &exchanges[1], nil, malformed.Message)
			return
		}
		asks, decisions := recorded.group(1)
		want, fault := oracle.reply(t, b.decoded(0), &exchanges[1], asks, decisions)
		equal(t, &exchanges[1], want, fault)
		if exchanges[1].Err != nil && exchanges[1].Err.Kind != InvalidArgument {
			t.Fatal(exchanges[1].Err)
		}
		for _, h := range want.GetResponseHeadersToAdd() {
			if !safeValue.MatchString(h.Value) {
				t.Fatalf("header %v", h)
			}
		}
	})
}
