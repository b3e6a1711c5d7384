package tracing

import (
	"context"
	"crypto/rand"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Service is who sends spans. What is empty is not said; but a service has a
// name, ratelimitd, and an instance, one by chance.
type Service struct{ Name, Namespace, Instance, Version string }

// resource describes the service together with what the variables say of it.
func (s Service) resource(ctx context.Context, f *faults) *resource.Resource {
	r, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(Service{Name: "ratelimitd", Instance: randomUUID()}.attributes()...),
		resource.WithFromEnv(),
		resource.WithAttributes(s.attributes()...),
	)
	if err != nil {
		f.Handle(err) // the rest holds
	}
	return r
}

func (s Service) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, a := range []struct {
		key  attribute.Key
		text string
	}{
		{semconv.ServiceNameKey, s.Name}, {semconv.ServiceNamespaceKey, s.Namespace},
		{semconv.ServiceInstanceIDKey, s.Instance}, {semconv.ServiceVersionKey, s.Version},
	} {
		if a.text != "" {
			all = append(all, a.key.String(a.text))
		}
	}
	return all
}

// randomUUID returns a UUID of version 4.
func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it does not fail
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
