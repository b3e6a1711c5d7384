package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// TypeURL is the type of the resources.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Policies returns the policies that resources are, sorted by name, for
// servers send them in any order. What is no resource of the type is an error;
// everything else that can be wrong is for [descriptors.Compile] to find.
func Policies(resources []*anypb.Any) ([]descriptors.File, error) {
	files := make([]descriptors.File, 0, len(resources))
	var faults []error
	for i, resource := range resources {
		if resource.GetTypeUrl() != TypeURL {
			faults = append(faults, fmt.Errorf("resource %d is of the type %q, not %s", i, resource.GetTypeUrl(), TypeURL))
			continue
		}
		file, err := resourcePolicy(resource.GetValue(), i)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		files = append(files, file)
	}
	slices.SortStableFunc(files, func(a, b descriptors.File) int { return cmp.Compare(a.Name, b.Name) })
	return files, errors.Join(faults...)
}

// resourcePolicy reads the resource of that number in its response.
func resourcePolicy(raw []byte, number int) (descriptors.File, error) {
	var config ratelimitv3.RateLimitConfig
	if err := proto.Unmarshal(raw, &config); err != nil {
		return descriptors.File{}, fmt.Errorf("resource %d is no RateLimitConfig: %w", number, err)
	}
	return descriptors.File{Name: resourceName(&config, number), Text: raw, Parse: parse}, nil
}

// parse is for [descriptors.File]. The policy is made when it is needed, for it
// takes many times the memory of the message.
func parse(raw []byte) (*yaml.Node, error) {
	var config ratelimitv3.RateLimitConfig
	if err := proto.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	return policy(&config)
}

// resourceName is how errors call a resource, on one line.
func resourceName(config *ratelimitv3.RateLimitConfig, number int) string {
	const longest = 400
	name := cmp.Or(config.GetName(), config.GetDomain())
	if name == "" {
		return "resource " + strconv.Itoa(number)
	}
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		name = quoted
	}
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "")
	}
	return name
}
