# What the tests of deploy/k8s and deploy/istio run, pinned: included by the Makefile. The versions stand in
# integration/deploy_manifest_test.go as well.
KUSTOMIZE_VERSION := v5.8.2# the newest that this Go builds
KUBECTL_VALIDATE_VERSION := v0.0.4# it brings the schemas of Kubernetes up to 1.30
ISTIO_API_VERSION := v1.32.0

KUSTOMIZE := $(TOOLS)/kustomize-$(KUSTOMIZE_VERSION)
KUBECTL_VALIDATE := $(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE_VERSION)
ISTIO_CRDS := $(TOOLS)/istio-crds-$(ISTIO_API_VERSION)

tools: $(KUSTOMIZE) $(KUBECTL_VALIDATE) $(ISTIO_CRDS)

# $(call built,package@version,name) builds a tool beside its place and moves it there when it is whole.
built = mkdir -p $@.new && GOBIN=$@.new GOFLAGS= go install -ldflags='-s -w' $(1) && mv $@.new/$(2) $@ && rmdir $@.new

$(KUSTOMIZE):
	@echo "building kustomize $(KUSTOMIZE_VERSION)"
	@$(call built,sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE_VERSION),kustomize)

$(KUBECTL_VALIDATE):
	@echo "building kubectl-validate $(KUBECTL_VALIDATE_VERSION), which takes a minute"
	@$(call built,sigs.k8s.io/kubectl-validate@$(KUBECTL_VALIDATE_VERSION),kubectl-validate)

# Istio's API is a Go module, and the definitions of its objects for Kubernetes are in it.
$(ISTIO_CRDS):
	@mkdir -p $@.new
	@cd $(TOOLS) && cp "$$(GOFLAGS= go mod download -json istio.io/api@$(ISTIO_API_VERSION) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')/kubernetes/customresourcedefinitions.gen.yaml" $@.new/crds.yaml
	@chmod u+w $@.new/crds.yaml && mv $@.new $@

.PHONY: istio
istio: $(KUSTOMIZE) ## Ask Istio's own code what deploy/istio leads to, and write it down for the tests (takes minutes to build)
	@cd tools/kubernetes-istio && GOFLAGS= go test -count=1 . -update >$(TOOLS)/istio.log 2>&1 || { tail -40 $(TOOLS)/istio.log; exit 1; }
	@git status --short integration/testdata/istio
