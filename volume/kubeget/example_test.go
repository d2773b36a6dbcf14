package kubeget_test

import (
	"fmt"

	"initbox/internal/kube"
	"initbox/volume/kubeget"
)

// A target makes files of objects that are known already, too.
func ExampleTarget_Files() {
	t, err := kubeget.Parse("k8s:secret/db#key=password&to=pw", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := t.Files([]kube.Object{{"kind": "Secret", "metadata": map[string]any{"name": "db"}, "data": map[string]any{"password": "czNjcjN0"}}})
	for _, f := range files {
		fmt.Println(f.Name, len(f.Content), f.Secret, f.From)
	}
	fmt.Println(err)
	// Output:
	// pw 6 true Secret db, key password
	// <nil>
}
