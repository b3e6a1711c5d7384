package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
)

// clientTimeout is how long the client waits for its answer.
const clientTimeout = 30 * time.Second

// descriptorFlags are those of the client, each k=v,k2=v2.
type descriptorFlags []*ratelimitv3.RateLimitDescriptor

func (d *descriptorFlags) String() string { return fmt.Sprint([]*ratelimitv3.RateLimitDescriptor(*d)) }

// Set implements [flag.Value].
func (d *descriptorFlags) Set(text string) error {
	descriptor := &ratelimitv3.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || strings.Contains(value, "=") {
			return fmt.Errorf("%q is not key=value", pair)
		}
		descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	*d = append(*d, descriptor)
	return nil
}

// clientTLS says how the client talks to the server.
type clientTLS struct {
	use           bool
	ca, cert, key string
}

// client is the program of envoyproxy/ratelimit that sends one request, with its
// flags.
func client(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("ratelimit_client", flag.ContinueOnError)
	flags.SetOutput(out)
	server := flags.String("dial_string", "localhost:8081", "the server, host:port")
	domain := flags.String("domain", "", "the domain of the request")
	var asked descriptorFlags
	flags.Var(&asked, "descriptors", "a descriptor, key=value,key=value; may be given several times")
	flags.String("oltp-protocol", "", "changes nothing: the client sends no traces")
	var secured clientTLS
	flags.BoolVar(&secured.use, "grpc-use-tls", false, "talk TLS")
	flags.StringVar(&secured.ca, "grpc-server-ca-file", "", "who signs the server's certificate; the system's if not given")
	flags.StringVar(&secured.cert, "grpc-cert-file", "", "the client's certificate")
	flags.StringVar(&secured.key, "grpc-key-file", "", "its key")
	if err := flags.Parse(args); err != nil {
		return helped(err)
	}
	fmt.Fprintf(out, "dial string: %s\ndomain: %s\ndescriptors: %s\n", *server, *domain, asked.String())
	security, err := secured.credentials()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(*server, grpc.WithTransportCredentials(security))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	response, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: *domain, Descriptors: asked, HitsAddend: 1})
	if err != nil {
		return fmt.Errorf("request error: %w", err)
	}
	_, err = fmt.Fprintf(out, "response: %s\n", response)
	return err
}

func (c *clientTLS) credentials() (credentials.TransportCredentials, error) {
	if !c.use {
		return insecure.NewCredentials(), nil
	}
	files := certificates.Files{
		CA: c.ca, CASetting: "-grpc-server-ca-file",
		Cert: c.cert, CertSetting: "-grpc-cert-file",
		Key: c.key, KeySetting: "-grpc-key-file",
	}
	loaded, err := files.Load()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(loaded.Client("")), nil
}
