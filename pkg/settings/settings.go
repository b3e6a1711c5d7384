package settings

import "time"

// Settings is everything that the program can be told, checked. It does not
// change after [Load]. The fields are in the order of [All], which says what
// each means; durations of 0 are "none" where All says so.
type Settings struct {
	Config string

	Policies        string
	PoliciesMaxSize Size
	Counting        string
	Region          Name

	XDSServer        string
	XDSNodeID        string
	XDSNodeMetadata  string // see [ParsePairs]
	XDSHeaders       Secret // see [ParsePairs]
	XDSTLS           bool
	XDSTLSCAFile     string
	XDSTLSCertFile   string
	XDSTLSKeyFile    string
	XDSTLSServerName string
	XDSMaxMessage    Size
	XDSRetry         time.Duration
	XDSRetryMax      time.Duration

	GRPCAddress            Address
	HTTPAddress            Address
	AdminAddress           Address
	AdminToken             Secret
	AdminTokenFile         string
	AdminTLSCertFile       string
	AdminTLSKeyFile        string
	AdminTLSClientCAFile   string
	GRPCTLSCertFile        string
	GRPCTLSKeyFile         string
	GRPCTLSClientCAFile    string
	GRPCTLSClientSAN       string
	GRPCMaxMessage         Size
	GRPCMaxHeaderList      Size
	GRPCMaxConnections     int
	GRPCMaxStreams         int
	GRPCConnectionAge      time.Duration
	GRPCConnectionAgeGrace time.Duration
	GRPCReflection         bool
	HTTPMaxBody            Size
	HTTPMaxConnections     int
	MaxDescriptors         int

	Store             string
	StoreTimeout      time.Duration
	HashValues        bool
	HashValuesKey     Secret
	HashValuesKeyFile string
	MemoryMaxKeys     int
	MemoryMaxSize     Size
	KnownOverKeys     int
	LocalMaxSize      Size
	Replicas          int

	RedisURL                   URL
	RedisUsername              string
	RedisPassword              Secret
	RedisPasswordFile          string
	RedisSentinelUsername      string
	RedisSentinelPassword      Secret
	RedisSentinelPasswordFile  string
	RedisPasswordFilesHaveUser bool
	RedisTLSCAFile             string
	RedisTLSCertFile           string
	RedisTLSKeyFile            string
	RedisTLSServerName         string
	RedisTLSAnyName            bool
	RedisTLSSkipVerify         bool
	RedisDialTimeout           time.Duration
	RedisPoolSize              int
	RedisPerSecondURL          URL

	MemcachedServers     string
	MemcachedSRV         string
	MemcachedSRVRefresh  time.Duration
	MemcachedConnections int
	MemcachedTLS         bool
	MemcachedTLSCAFile   string
	MemcachedTLSCertFile string
	MemcachedTLSKeyFile  string
	MemcachedTLSAnyName  bool

	RateLimitHeaders       bool
	RateLimitLegacyHeaders bool
	XRateLimitHeaders      bool
	RetryAfterHeader       bool
	DelayHeader            bool
	DegradedHeader         bool
	Body                   bool
	DynamicMetadata        bool

	StatsdAddress  string
	StatsdNetwork  string
	StatsdInterval time.Duration
	StatsdTags     string // see [ParsePairs]
	StatsdDialect  string
	StatsdMaxNames int

	Tracing             bool
	TracingSamplingRate Fraction

	LogLevel  string
	LogFormat string

	Readiness       string
	DrainDelay      time.Duration
	ShutdownTimeout time.Duration

	origins map[string]string // setting → where its value comes from
	names   map[string]string // setting → what it is called where it was set, if that is not its name
}

// Called is what a setting is called where it was set, for messages.
func (s *Settings) Called(name string) string {
	if called := s.names[name]; called != "" {
		return called
	}
	return name
}

// Rename says what settings are called where they were set. It is for who fills
// the settings, before anybody uses them.
func (s *Settings) Rename(names map[string]string) { s.names = names }

// Value is one setting as it is in force, to be shown to people.
type Value struct {
	Name   string
	Text   string // secrets masked
	Origin string // default, a line of the file, a variable or a flag
}

// Values returns all settings as they are in force, in the order of [All],
// secrets masked.
func (s *Settings) Values() []Value {
	rows := table(s)
	values := make([]Value, len(rows))
	for i, row := range rows {
		origin := s.origins[row.Name]
		if origin == "" {
			origin = "default"
		}
		values[i] = Value{Name: row.Name, Text: row.current(), Origin: origin}
	}
	return values
}

// Default returns the settings of a program that is told nothing.
func Default() *Settings {
	s := &Settings{}
	for _, row := range table(s) {
		if problem := row.parse(row.Default); problem != "" {
			panic("settings: default of " + row.Name + ": " + problem) // a bug, found by every test
		}
	}
	return s
}
