package podinfo_test

import (
	"fmt"

	"initbox/internal/podinfo"
)

func ExampleSource_Stanza() {
	fmt.Println(podinfo.Source{}.Stanza("Namespace"))
	// Output:
	// env:
	// - name: POD_NAMESPACE
	//   valueFrom:
	//     fieldRef: {fieldPath: metadata.namespace}
}

func ExampleOrdinal() {
	fmt.Println(podinfo.Ordinal("web-2"))
	// Output: 2 <nil>
}
