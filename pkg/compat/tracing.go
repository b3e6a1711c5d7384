package compat

// Tracing are the variables about traces. Where these go is told by those of
// OpenTelemetry, OTEL_EXPORTER_OTLP_ENDPOINT and the like.
type Tracing struct {
	Enabled          bool
	ServiceName      string
	ServiceNamespace string
	InstanceID       string
	Protocol         string  // http or grpc
	SamplingRate     float64 // from 0 to 1, of requests that are not part of a trace
}

func (t *Tracing) rows() []Row {
	return []Row{
		{Name: "TRACING_ENABLED", Default: "false", target: &t.Enabled, Doc: "Send traces over OTLP, to where the variables of OpenTelemetry say."},
		{Name: "TRACING_SERVICE_NAME", Default: "RateLimit", target: &t.ServiceName, Doc: "The name of the service."},
		{Name: "TRACING_SERVICE_NAMESPACE", target: &t.ServiceNamespace, Doc: "Its namespace."},
		{Name: "TRACING_SERVICE_INSTANCE_ID", target: &t.InstanceID, Doc: "Its instance; one by chance if not set."},
		{Name: "TRACING_EXPORTER_PROTOCOL", Default: "http", target: &t.Protocol, Doc: "http or grpc."},
		{Name: "TRACING_SAMPLING_RATE", Default: "1", target: &t.SamplingRate, Doc: "Of requests that are not part of a trace, which part is traced."},
	}
}

func (t *Tracing) check(f *faults) {
	if t.Enabled && t.Protocol != "http" && t.Protocol != "grpc" {
		f.add("TRACING_EXPORTER_PROTOCOL", "%q is not one of http, grpc", t.Protocol)
	}
}
