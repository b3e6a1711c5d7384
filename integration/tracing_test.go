package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
)

// envoyTracing has Envoy trace all requests, and send each span at once.
const envoyTracing = `                tracing:
                  random_sampling: {value: 100}
                  provider:
                    name: envoy.tracers.opentelemetry
                    typed_config:
                      "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                      service_name: edge
                      grpc_service: {envoy_grpc: {cluster_name: collector}, timeout: 5s}
`

// collectorCluster is where Envoy sends them; ADDRESS and PORT are replaced.
const collectorCluster = `    - name: collector
      type: STATIC
      connect_timeout: 5s
      load_assignment:
        cluster_name: collector
        endpoints:
          - lb_endpoints:
              - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: PORT}}}
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
`

// With Envoy's own tracing on, the spans of a request and of its question to ratelimitd and to Redis are one trace: ratelimitd's
// parent is Envoy's span. What Envoy does not sample ratelimitd does not.
func TestTraceThroughEnvoy(t *testing.T) {
	collector := otlptest.Start(t)
	server := serve(t, policyDir(t, "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {requests_per_unit: 1, unit: hour}}\n"), append(startRedis(t),
		"RATELIMITD_TRACING=true", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.HTTP, "OTEL_BSP_SCHEDULE_DELAY=20")...)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, edit: func(text string) string {
		const manager, clusters = "                stat_prefix: edge\n", "  clusters:\n"
		if strings.Count(text, manager) != 1 || strings.Count(text, clusters) != 1 {
			t.Fatal("envoy.yaml has another form")
		}
		port := collector.GRPC[strings.LastIndex(collector.GRPC, ":")+1:]
		text = strings.Replace(text, manager, manager+envoyTracing, 1)
		text = strings.Replace(text, clusters, clusters+strings.Replace(collectorCluster, "PORT", port, 1), 1)
		return "layered_runtime: {layers: [{name: tests, static_layer: {tracing.opentelemetry.min_flush_spans: 1}}]}\n" + text
	}})
	client := envoy.client(t, "")
	const unsampled = "0af7651916cd43dd8448eb211c80319c"
	for i, headers := range [][]string{{"traceparent: 00-" + unsampled + "-b7ad6b7169203331-00"}, nil} {
		got, err := client.get("/user", append(headers, "x-user-id: somebody")...)
		if want := []int{http.StatusOK, http.StatusTooManyRequests}[i]; err != nil || got.status != want {
			t.Fatalf("%v, %v", got, err)
		}
	}
	spans := map[string]otlptest.Span{} // by ID
	var own, store otlptest.Span
	waitFor(t, 20*time.Second, "the spans of ratelimitd, Redis and Envoy", func() bool {
		for _, span := range collector.Spans() {
			spans[span.SpanID] = span
			switch {
			case span.TraceID == unsampled:
				t.Errorf("%+v was not to be sampled", span)
			case span.Resource["service.name"] == "ratelimitd" && span.Kind == "SERVER":
				own = span
			case span.Resource["service.name"] == "ratelimitd":
				store = span
			}
		}
		return own.SpanID != "" && store.SpanID != "" && spans[own.Parent].SpanID != ""
	})
	asked := spans[own.Parent]
	if asked.Resource["service.name"] != "edge" || asked.Kind != "CLIENT" || asked.TraceID != own.TraceID || store.Parent != own.SpanID || store.Name != "EVALSHA" {
		t.Errorf("Envoy: %+v\nratelimitd: %+v\nRedis: %+v", asked, own, store)
	}
	if own.Attributes["ratelimit.code"] != "OVER_LIMIT" || strings.Contains(collector.Text(), "somebody") {
		t.Errorf("%+v", own)
	}
}
