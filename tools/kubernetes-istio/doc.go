// Package istio asks Istio itself what deploy/istio leads to.
//
// Its test gives the Services of deploy/k8s, a shop behind a gateway and the
// files of deploy/istio to istiod's own code, and compares the configuration
// of Envoy that comes out with that in integration/testdata/istio, from which
// the tests of every day start a real Envoy. It is a module of its own and no
// part of `make test`, since istiod takes minutes to build:
//
//	cd tools/kubernetes-istio && go test . -update
package istio
