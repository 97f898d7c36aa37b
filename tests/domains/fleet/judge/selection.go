// Reads a placement and the objects of a hub as lines of JSON, and writes what KubeFleet selects, in its order.
package main

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"judge.test/kubefleet/lines"

	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/utils"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/controller"
	fakeinformer "github.com/kubefleet-dev/kubefleet/test/utils/informer"
)

type question struct {
	Placement placement.ClusterResourcePlacement
	Objects   []map[string]any
	// The kinds that the hub serves: group, version and kind, and whether they are namespaced.
	Kinds []struct {
		Group, Version, Kind string
		Namespaced           bool
	}
}

type answer struct {
	// Kind, namespace and name.
	Selected [][3]string `json:"selected"`
	Failure  string      `json:"failure"`
}

func decide(asked *question) answer {
	hub := &fakeinformer.FakeManager{
		APIResources:            map[schema.GroupVersionKind]bool{},
		IsClusterScopedResource: true,
		Listers:                 map[schema.GroupVersionResource]*fakeinformer.FakeLister{},
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range asked.Kinds {
		named := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
		resource, _ := meta.UnsafeGuessKindToResource(named)
		scope := meta.RESTScope(meta.RESTScopeRoot)
		hub.APIResources[named] = !kind.Namespaced
		hub.Listers[resource] = &fakeinformer.FakeLister{}
		if kind.Namespaced {
			scope = meta.RESTScopeNamespace
			hub.NamespaceScopedResources = append(hub.NamespaceScopedResources, resource)
		}
		mapper.Add(named, scope)
	}
	for _, object := range asked.Objects {
		listed := &unstructured.Unstructured{Object: object}
		resource, _ := meta.UnsafeGuessKindToResource(listed.GroupVersionKind())
		if lister := hub.Listers[resource]; lister != nil {
			lister.Objects = append(lister.Objects, listed)
		}
	}
	resolver := controller.ResourceSelectorResolver{
		SkippedNamespaces: map[string]bool{"fleet-system": true, "default": true},
		ResourceConfig:    utils.NewResourceConfig(false),
		InformerManager:   hub,
		RestMapper:        mapper,
		EnableWorkload:    true,
	}
	_, _, identifiers, err := resolver.SelectResourcesForPlacement(&asked.Placement)
	told := answer{Selected: [][3]string{}}
	if err != nil {
		told.Failure = err.Error()
	}
	for _, one := range identifiers {
		told.Selected = append(told.Selected, [3]string{one.Kind, one.Namespace, one.Name})
	}
	return told
}

func main() { lines.Answer(decide) }
