package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"initbox/internal/suggest"
)

// UnknownResource is the error of a kind of object that the server does not have, or not yet.
type UnknownResource struct {
	Name       string
	Suggestion string // what may have been meant; may be empty
}

func (e *UnknownResource) Error() string {
	text := fmt.Sprintf("the API server has no kind %q", e.Name)
	if e.Suggestion != "" {
		text += fmt.Sprintf(", did you mean %s?", e.Suggestion)
	}
	return text
}

// discovery keeps the resources that the server has reported.
type discovery struct {
	turn  chan struct{} // held while asking; made on first use
	mu    sync.Mutex
	found map[string]Resource
	all   []known   // of the last time that everything was asked for
	asked time.Time // when that was
}

// askAllAfter is the least time between two requests for everything that the server has, which may be half a megabyte.
const askAllAfter = 2 * time.Second

// maxDiscovery is how many bytes of that are read; a cluster with a thousand CRDs has about 1 MiB.
const maxDiscovery = 16 << 20

// Resource returns the resource that kubectl would take name for (see [Lookup]). For a name that is not built in, it
// asks the server, once. The error is an [UnknownResource] if the server has no such resource.
func (c *Client) Resource(ctx context.Context, name string) (Resource, error) {
	if r, ok := Lookup(name); ok {
		return r, nil
	}
	name = strings.ToLower(name)
	d := &c.discovery
	d.mu.Lock()
	r, ok := d.found[name]
	d.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := Documents(c.document).find(ctx, name, c.everything)
	if err == nil {
		d.mu.Lock()
		if d.found == nil {
			d.found = map[string]Resource{}
		}
		d.found[name] = r
		d.mu.Unlock()
	}
	return r, err
}

// Documents reads what an API server says about its resources, at a path such as apis/batch/v1, into v. The error is a
// [StatusError] if it has no such document.
type Documents func(ctx context.Context, path []string, accept string, v any) error

// Resource returns the resource that kubectl would take name for, if [Lookup] does not know it. The error is an
// [UnknownResource] if the server has no such resource.
func (d Documents) Resource(ctx context.Context, name string) (Resource, error) {
	return d.find(ctx, strings.ToLower(name), d.everything)
}

// find asks about the one group if name has one: that is a few short answers, even in a cluster that has everything.
func (d Documents) find(ctx context.Context, name string, everything func(context.Context) ([]known, error)) (Resource, error) {
	_, ver, group := split(name)
	var list []known
	var err error
	if group != "" {
		list, err = d.group(ctx, group, ver)
	} else {
		list, err = everything(ctx)
	}
	if err != nil {
		return Resource{}, err
	}
	if r, ok := find(list, name); ok {
		return r, nil
	}
	var names []string
	for _, k := range slices.Concat(builtin(), list) {
		names = append(names, k.Name, k.Resource.String(), k.singular)
	}
	return Resource{}, &UnknownResource{name, suggest.Closest(name, names)}
}

// groupDocument is the part of APIGroup that is read.
type groupDocument struct {
	Name     string `json:"name"`
	Versions []struct {
		Version string `json:"version"`
	} `json:"versions"`
	PreferredVersion struct {
		Version string `json:"version"`
	} `json:"preferredVersion"`
}

// versions returns the group's versions, the preferred one first.
func (g groupDocument) versions() []string {
	all := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		all = append(all, v.Version)
	}
	return all
}

// group returns the resources of one group, in the version or else in all, and
// nothing if there is no such group or version.
func (d Documents) group(ctx context.Context, group, ver string) ([]known, error) {
	if ver != "" {
		return d.resources(ctx, group, ver)
	}
	var g groupDocument
	err := d(ctx, []string{"apis", group}, "", &g)
	if hasCode(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.newest(ctx, group, g.versions())
}

// newest returns the resources of a group, each in the first of the versions that
// has it: a kind may be there as v1alpha1 alone.
func (d Documents) newest(ctx context.Context, group string, versions []string) ([]known, error) {
	var all []known
	for i, ver := range versions {
		if ver == "" || slices.Contains(versions[:i], ver) {
			continue
		}
		list, err := d.resources(ctx, group, ver)
		if err != nil {
			return nil, err
		}
		if list == nil {
			break // listed, but not there yet: it is being created, and may have what an older version has
		}
		for _, k := range list {
			if !slices.ContainsFunc(all, func(have known) bool { return have.Name == k.Name }) {
				all = append(all, k)
			}
		}
	}
	return all, nil
}

// resources returns those of one version of a group, from APIResourceList, and nil if there is no such version.
func (d Documents) resources(ctx context.Context, group, ver string) ([]known, error) {
	var list struct {
		Resources []struct {
			Name         string   `json:"name"`
			SingularName string   `json:"singularName"`
			Namespaced   bool     `json:"namespaced"`
			Kind         string   `json:"kind"`
			Verbs        []string `json:"verbs"`
			ShortNames   []string `json:"shortNames"`
		} `json:"resources"`
	}
	path := []string{"apis", group, ver}
	if group == "" {
		path = []string{"api", ver}
	}
	err := d(ctx, path, "", &list)
	if hasCode(err, http.StatusNotFound) {
		return nil, nil
	}
	all := []known{}
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "get") { // no subresource
			all = append(all, known{Resource{group, ver, r.Name, r.Kind, r.Namespaced}, r.SingularName, r.ShortNames})
		}
	}
	return all, err
}

// everything returns all resources of the server, each in its preferred
// version, as they were a short time ago at the most.
func (c *Client) everything(ctx context.Context) ([]known, error) {
	d := &c.discovery
	d.mu.Lock()
	if d.turn == nil {
		d.turn = make(chan struct{}, 1)
	}
	d.mu.Unlock()
	select {
	case d.turn <- struct{}{}: // a second caller finds the result of the first one
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d.all != nil && time.Since(d.asked) < askAllAfter {
		return d.all, nil
	}
	all, err := Documents(c.document).everything(ctx)
	if err == nil {
		d.all, d.asked = all, time.Now()
	}
	return all, err
}

func (d Documents) everything(ctx context.Context) (all []known, err error) {
	for _, root := range []string{"api", "apis"} {
		list, err := d.root(ctx, root)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// aggregated asks for all groups and their resources in one document, and for
// the plain list of groups from a server that has no such thing (before 1.26).
//
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// rootDocument has the parts in use of APIGroupDiscoveryList, and of APIVersions and APIGroupList, which older servers
// answer instead.
type rootDocument struct {
	Kind  string `json:"kind"`
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Version   string `json:"version"`
			Resources []struct {
				Resource     string `json:"resource"`
				ResponseKind struct {
					Kind string `json:"kind"`
				} `json:"responseKind"`
				Scope            string   `json:"scope"`
				SingularResource string   `json:"singularResource"`
				ShortNames       []string `json:"shortNames"`
				Verbs            []string `json:"verbs"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`

	Versions []string        `json:"versions"` // APIVersions
	Groups   []groupDocument `json:"groups"`   // APIGroupList
}

func (d Documents) root(ctx context.Context, root string) ([]known, error) {
	var doc rootDocument
	if err := d(ctx, []string{root}, aggregated, &doc); err != nil {
		return nil, err
	}
	if doc.Kind != "APIGroupDiscoveryList" {
		return d.groups(ctx, doc)
	}
	var all []known
	for _, group := range doc.Items {
		have := map[string]bool{}
		for _, v := range group.Versions { // the preferred one first
			for _, r := range v.Resources {
				if have[r.Resource] || !slices.Contains(r.Verbs, "get") {
					continue
				}
				have[r.Resource] = true
				all = append(all, known{Resource{group.Metadata.Name, v.Version, r.Resource, r.ResponseKind.Kind, r.Scope == "Namespaced"}, r.SingularResource, r.ShortNames})
			}
		}
	}
	return all, nil
}

// groups asks for the resources of each group by itself.
func (d Documents) groups(ctx context.Context, doc rootDocument) ([]known, error) {
	all, err := d.newest(ctx, "", doc.Versions)
	if err != nil {
		return nil, err
	}
	for _, g := range doc.Groups {
		list, err := d.newest(ctx, g.Name, g.versions())
		if hasCode(err, http.StatusServiceUnavailable) {
			continue // an API server beside the API server is down: the others' resources are known
		}
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// document reads an answer that is not a resource into v.
func (c *Client) document(ctx context.Context, path []string, accept string, v any) error {
	return c.ask(ctx, request{path: path, accept: accept}, func(body io.Reader) error {
		data, err := io.ReadAll(&meter{body, maxDiscovery})
		if err != nil {
			return answer(err)
		}
		return answer(json.Unmarshal(data, v))
	})
}
