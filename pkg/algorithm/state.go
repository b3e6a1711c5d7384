package algorithm

// State is what a store keeps for a key. The zero value is a key that was
// never seen. Algorithms read the fields as follows; instants are in
// microseconds since the epoch, whatever the limit's tick.
//
//	                        At                      Used            Aux
//	fixed_window            begin of the window     hits in it      its end
//	sliding_window_counter  begin of the window     hits in it      hits in the one before
//	token_bucket            instant of the level    level in units  units per hit
//	leaky_bucket            the same
//	sliding_window_log      –                       –               –
//
// A bucket's level is what was taken and has not come back: 0 is full for a
// token bucket and empty for a leaky one.
type State struct {
	At, Used, Aux int64

	// Log holds an instant for each hit of a sliding window log, oldest
	// first, at most capacity + 1 of them. Its backing array is only ever
	// appended to, so that an earlier State that shares it stays valid.
	Log []int64
}
