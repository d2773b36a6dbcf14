package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"initbox/internal/kube"
	"initbox/test/fakeapi"
)

func ExampleClient_Get() {
	api := fakeapi.New()
	if err := api.Apply(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "status": {"succeeded": 1}}`); err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(api)
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a Pod, kube.InCluster(os.Getenv) returns the configuration.
	config := &kube.Config{Server: address, NoProxy: true, Authorize: func(http.Header) error { return nil }}
	client := kube.New(config, kube.Options{})
	jobs, _ := kube.Lookup("jobs")
	job, err := client.Get(context.Background(), jobs, "default", "migrate")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.Name(), job.At("status", "succeeded"))
	// Output: migrate 1
}
