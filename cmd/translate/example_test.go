package translate_test

import (
	"fmt"

	"initbox/cmd/translate"
)

func ExampleK8sWaitFor() {
	env := translate.Environment{Lookup: func(string) (string, bool) { return "", false }}
	line, err := translate.K8sWaitFor([]string{"job", "migrate"}, env)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("initbox wait-for-service" + line.String())
	// Output: initbox wait-for-service 'k8s:job/migrate'
}
