package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// mutualTLS has Envoy talk TLS to ratelimitd, with a certificate of its own.
func mutualTLS(t *testing.T, files *redistest.Certificates) func(string) string {
	return func(text string) string {
		const cluster = "    - name: ratelimitd\n"
		if strings.Count(text, cluster) != 1 {
			t.Fatal("envoy.yaml has no such cluster")
		}
		return strings.Replace(text, cluster, cluster+fmt.Sprintf(`      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          sni: localhost
          common_tls_context:
            alpn_protocols: [h2]
            tls_certificates: [{certificate_chain: {filename: %q}, private_key: {filename: %q}}]
            validation_context:
              trusted_ca: {filename: %q}
              match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: localhost}}]
`, files.ClientCert, files.ClientKey, files.CA), 1)
	}
}

// However Envoy reaches ratelimitd, three requests of a user pass and the fourth does not. ratelimitd leaves no socket behind.
func TestListeners(t *testing.T) {
	policies := policyDir(t, "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 3}}]\n")
	for name, row := range map[string]struct{ isUnix, secured bool }{
		"TCP over TLS": {secured: true}, "unix socket": {isUnix: true}, "unix socket over TLS": {isUnix: true, secured: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRatelimitd(t, policies, "RATELIMITD_STORE=memory")
			o := envoyOptions{}
			socket := filepath.Join(t.TempDir(), "grpc.sock")
			if row.isUnix {
				s.grpc = "unix:" + socket
				s.env = append(s.env, "RATELIMITD_GRPC_ADDRESS="+s.grpc)
			}
			if row.secured {
				files := redistest.NewCertificates(t, t.TempDir())
				s.env = append(s.env, "RATELIMITD_GRPC_TLS_CERT_FILE="+files.ServerCert, "RATELIMITD_GRPC_TLS_KEY_FILE="+files.ServerKey,
					"RATELIMITD_GRPC_TLS_CLIENT_CA_FILE="+files.CA, "RATELIMITD_GRPC_TLS_CLIENT_SAN=localhost")
				o.edit = mutualTLS(t, files)
			}
			s.start(t)
			o.ratelimitd = []string{s.grpc}
			envoy := startEnvoy(t, o)
			client := envoy.client(t, "")
			awayFromBoundary(t, time.Hour)
			for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
				if got := client.mustGet(t, "/user", "x-user-id: alice"); got.status != want {
					t.Errorf("request %d: status %d, want %d", i+1, got.status, want)
				}
			}
			envoy.wantNoErrors(t)
			s.Terminate(t, 10*time.Second)
			if _, err := os.Lstat(socket); err == nil {
				t.Error("the socket is still there")
			}
		})
	}
}
