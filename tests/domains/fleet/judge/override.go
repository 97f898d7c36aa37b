// Reads objects, override snapshots and a member as lines of JSON, and writes the objects that KubeFleet's work
// generator makes for the member, or its error. build_judge.sh compiles it with the generator's source.
package main

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"judge.test/kubefleet/lines"

	cluster "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/informer"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/overrider"
	fakeinformer "github.com/kubefleet-dev/kubefleet/test/utils/informer"
)

// Reconciler has what the functions for overrides use of the generator.
type Reconciler struct {
	Client          client.Client
	InformerManager informer.Manager
}

type question struct {
	Member           cluster.MemberCluster
	Objects          []json.RawMessage
	ClusterOverrides []*placement.ClusterResourceOverrideSnapshot
	Overrides        []*placement.ResourceOverrideSnapshot
	// Kinds of the cluster's scope, as group, version and kind.
	ClusterKinds [][3]string
}

type answer struct {
	// One for each object; nothing for one that an override deletes.
	Objects []json.RawMessage `json:"objects"`
	Failure string            `json:"failure"`
}

func decide(asked *question) answer {
	ctx := context.Background()
	objects := []client.Object{&asked.Member}
	for _, override := range asked.ClusterOverrides {
		objects = append(objects, override)
	}
	for _, override := range asked.Overrides {
		objects = append(objects, override)
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, kind := range asked.ClusterKinds {
		kinds[schema.GroupVersionKind{Group: kind[0], Version: kind[1], Kind: kind[2]}] = true
	}
	server := fake.NewClientBuilder().WithScheme(lines.BuildScheme()).WithObjects(objects...).Build()
	generator := &Reconciler{server, &fakeinformer.FakeManager{APIResources: kinds, IsClusterScopedResource: true}}
	binding := &placement.ClusterResourceBinding{}
	var err error
	binding.Spec.ClusterResourceOverrideSnapshots, binding.Spec.ResourceOverrideSnapshots, err =
		overrider.PickFromResourceMatchedOverridesForTargetCluster(
			ctx, server, asked.Member.Name, asked.ClusterOverrides, asked.Overrides)
	if err != nil {
		return answer{Failure: err.Error()}
	}
	clusterOverrides, err := generator.fetchClusterResourceOverrideSnapshots(ctx, binding)
	lines.Require(err)
	overrides, err := generator.fetchResourceOverrideSnapshots(ctx, binding)
	lines.Require(err)
	told := answer{}
	for _, object := range asked.Objects {
		content := placement.ResourceContent{}
		content.Raw = object
		if _, err := generator.applyOverrides(&content, &asked.Member, clusterOverrides, overrides); err != nil {
			return answer{Failure: err.Error()}
		}
		told.Objects = append(told.Objects, content.Raw)
	}
	return told
}

func main() { lines.Answer(decide) }
