// Package check tests the Helm chart: Helm's own code lints and renders it, and each object is decoded strictly, as a
// Kubernetes server does. It is a separate module, so that the bot does not depend on Helm.
package check

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	appsv1 "k8s.io/api/apps/v1"
)

const chartFolder = ".."

// render returns the objects of the chart, or the error of values that it refuses.
func render(t *testing.T, values map[string]any) ([]runtime.Object, error) {
	t.Helper()
	chart, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.ReleaseName = true, true, "raven"
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	release, err := install.Run(chart, values)
	if err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var list []runtime.Object
	for _, text := range strings.Split(release.Manifest, "\n---\n") {
		if len(bytes.TrimSpace([]byte(text))) == 0 {
			continue
		}
		object, _, err := strict.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		list = append(list, object)
	}
	return list, nil
}

func TestChart_IsLinted(t *testing.T) {
	result := action.NewLint().Run([]string{chartFolder}, nil)
	for _, err := range result.Errors {
		t.Error(err)
	}
	if result.TotalChartsLinted != 1 {
		t.Errorf("%d charts were linted", result.TotalChartsLinted)
	}
}

func TestChart_RendersValidObjects(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"one replica keeps its store in a volume": {nil, []string{"ConfigMap", "Service", "StatefulSet"}},
		"three replicas share a database": {map[string]any{"replicas": 3},
			[]string{"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"}},
		"everything set": {map[string]any{
			"replicas":         2,
			"image":            map[string]any{"repository": "r.example/raven", "tag": "1", "pullPolicy": "Always"},
			"imagePullSecrets": []any{map[string]any{"name": "pull"}},
			"ingress": map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "tls",
				"annotations": map[string]any{"a.example/b": "c"}},
			"nodeSelector": map[string]any{"disk": "ssd"},
			"tolerations":  []any{map[string]any{"key": "a", "operator": "Exists"}},
		}, []string{"ConfigMap", "Deployment", "Ingress", "PodDisruptionBudget", "Service"}},
	} {
		list, err := render(t, c.values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var kinds []string
		for _, object := range list {
			kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind)
			if set, ok := object.(*appsv1.StatefulSet); ok && len(set.Spec.VolumeClaimTemplates) != 1 {
				t.Errorf("%s: the only replica has no volume of its own", name)
			}
		}
		if slices.Sort(kinds); !slices.Equal(kinds, c.want) {
			t.Errorf("%s: rendered %q, want %q", name, kinds, c.want)
		}
	}
}

func TestChart_RefusesValuesThatCannotWork(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"no replica":   {"replicas": 0},
		"no secret":    {"existingSecret": ""},
		"a wrong type": {"service": map[string]any{"type": "Loadbalancer"}},
		"a typo":       {"replica": 2},
	} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
