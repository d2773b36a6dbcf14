package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
)

// Client reads objects of all kinds, and decodes them from JSON.
type Client struct{ rest rest.Interface }

// NewClient returns a client for the server. It connects when it is used. It sends up to 50 requests a second.
func NewClient(config *rest.Config) (*Client, error) {
	errorsOnly := runtime.NewScheme() // metav1.Status
	metav1.AddToGroupVersion(errorsOnly, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 200
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	config.NegotiatedSerializer = serializer.NewCodecFactory(errorsOnly).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	return &Client{client}, err
}

// on makes a request about the objects of a kind in a namespace.
func on(request *rest.Request, r kube.Resource, namespace string) *rest.Request {
	prefix := []string{"api", r.Version}
	if r.Group != "" {
		prefix = []string{"apis", r.Group, r.Version}
	}
	return request.AbsPath(prefix...).NamespaceIfScoped(namespace, namespace != "").Resource(r.Name)
}

const (
	// requestLimit bounds each request: an API server that hangs must not hang the doctor.
	requestLimit = 15 * time.Second
	pageSize     = 500 // objects of one answer
	// patience is how many requests in a row may go without an answer before no more are sent.
	patience = 2
)

// cluster reads the cluster. Each list is read once, and each refusal is remembered, for the note at the end.
type cluster struct {
	*Client
	cache       map[string]any          // what was read, or the error
	byNamespace map[string][]corev1.Pod // all Pods, once they have been listed together
	unread      map[string]string       // why, by what: "secrets in shop"
	silent      int                     // requests without an answer, in a row
	noReviews   bool                    // the API server does not say what accounts may do
}

func newCluster(client *Client) *cluster {
	return &cluster{Client: client, cache: map[string]any{}, unread: map[string]string{}}
}

// errSilent ends requests to a server that does not answer.
var errSilent = errors.New("the API server does not answer")

// ask makes one request.
func (c *cluster) ask(ctx context.Context, request func(context.Context) error) error {
	if c.silent >= patience {
		return errSilent
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	err := request(ctx)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		c.silent++
	} else {
		c.silent = 0
	}
	return err
}

// note remembers what could not be read. What does not exist could.
func (c *cluster) note(err error, what, namespace string) {
	if err == nil || apierrors.IsNotFound(err) || errors.As(err, new(*kube.UnknownResource)) || errors.Is(err, context.Canceled) {
		return
	}
	if namespace != "" {
		what += " in " + namespace
	}
	c.unread[what] = reason(err)
}

// reason says in a few words why something was not read.
func reason(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.IsUnauthorized(err):
		return "not logged in"
	case errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		return "no answer within " + requestLimit.String()
	case errors.Is(err, errSilent):
		return errSilent.Error()
	}
	return failure.Printable(err.Error())
}

// notRead returns what could not be read, sorted.
func (c *cluster) notRead() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.unread)) {
		all = append(all, what+" ("+c.unread[what]+")")
	}
	return all
}

// read sends a request, and decodes its answer into v.
func (c *cluster) read(ctx context.Context, request *rest.Request, v any) error {
	return c.ask(ctx, func(ctx context.Context) error {
		answer := request.Do(ctx)
		if err := answer.Error(); err != nil {
			return err
		}
		body, _ := answer.Raw()
		if err := json.Unmarshal(body, v); err != nil {
			return fmt.Errorf("not an answer of a Kubernetes API server: %w", err)
		}
		return nil
	})
}

// once calls get, and returns the same value or error for the same key from then on.
func once[T any](c *cluster, key string, get func() (T, error)) (v T, err error) {
	key = fmt.Sprintf("%T\n%s", v, key) // a Job may be read whole, and its metadata alone
	if err, failed := c.cache[key].(error); failed {
		return v, err
	}
	v, ok := c.cache[key].(T)
	if !ok {
		if v, err = get(); err != nil {
			c.cache[key] = err
		} else {
			c.cache[key] = v
		}
	}
	return v, err
}

// list returns the objects of a kind in a namespace, "" for all of them, and reads them once. As
// [metav1.PartialObjectMetadata], they come without their content, such as the data of Secrets.
func list[T any](ctx context.Context, c *cluster, r kube.Resource, namespace string) ([]T, error) {
	if !r.Namespaced {
		namespace = ""
	}
	return once(c, r.String()+"\n"+namespace, func() (all []T, err error) {
		what, as, fields := r.String(), "application/json", ""
		switch any(all).(type) {
		case []metav1.PartialObjectMetadata:
			if what, as = "names of "+what, as+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"; r.Namespaced && namespace == "" {
				what += " of all namespaces"
			}
		case []corev1.Event:
			fields = "type=Warning"
		}
		all, err = readAll[T](ctx, c, func() *rest.Request {
			return on(c.rest.Get(), r, namespace).SetHeader("Accept", as).Param("fieldSelector", fields)
		})
		c.note(err, what, namespace)
		return all, err
	})
}

// readAll reads all pages. Where a page has expired meanwhile, the list is read again at once.
func readAll[T any](ctx context.Context, c *cluster, request func() *rest.Request) (all []T, err error) {
	limit, next := pageSize, ""
	for {
		var page struct {
			Metadata metav1.ListMeta
			Items    []T
		}
		err := c.read(ctx, request().Param("limit", strconv.Itoa(limit)).Param("continue", next), &page)
		switch {
		case apierrors.IsResourceExpired(err) && next != "":
			limit, next, all = 0, "", nil
			continue
		case err != nil:
			return nil, err
		}
		for i := range page.Items {
			if o, ok := any(&page.Items[i]).(metav1.Object); ok {
				o.SetManagedFields(nil) // large, and says nothing here
			}
		}
		all = append(all, page.Items...)
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}

// one returns an object, which is read once, or the error of the request.
func one[T any](ctx context.Context, c *cluster, r kube.Resource, namespace, name string) (T, error) {
	if !r.Namespaced {
		namespace = ""
	}
	return once(c, r.String()+"\n"+namespace+"/"+name, func() (o T, err error) {
		err = c.read(ctx, on(c.rest.Get(), r, namespace).Name(name), &o)
		c.note(err, r.String(), namespace)
		return o, err
	})
}

func (c *cluster) services(ctx context.Context, namespace string) ([]corev1.Service, error) {
	return list[corev1.Service](ctx, c, resourceOf("services"), namespace)
}

// serviceNamed returns a Service, or nil if the namespace has no such Service. known is false if the Services of the
// namespace could not be read.
func (c *cluster) serviceNamed(ctx context.Context, namespace, name string) (s *corev1.Service, known bool) {
	all, err := c.services(ctx, namespace)
	if i := slices.IndexFunc(all, func(s corev1.Service) bool { return s.Name == name }); i >= 0 {
		s = &all[i]
	}
	return s, err == nil
}

func (c *cluster) slices(ctx context.Context, namespace string) ([]discoveryv1.EndpointSlice, error) {
	return list[discoveryv1.EndpointSlice](ctx, c, resourceOf("endpointslices"), namespace)
}

// events returns the warnings of a namespace.
func (c *cluster) events(ctx context.Context, namespace string) []corev1.Event {
	all, _ := list[corev1.Event](ctx, c, resourceOf("events"), namespace)
	return all
}

// pods returns the Pods of a namespace, or of all.
func (c *cluster) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	if c.byNamespace != nil && namespace != "" {
		return c.byNamespace[namespace], nil
	}
	all, err := list[corev1.Pod](ctx, c, resourceOf("pods"), namespace)
	if namespace == "" && err == nil && c.byNamespace == nil {
		c.byNamespace = map[string][]corev1.Pod{}
		for _, p := range all {
			c.byNamespace[p.Namespace] = append(c.byNamespace[p.Namespace], p)
		}
	}
	return all, err
}

// names returns the metadata of the objects of a kind, "" for all namespaces.
func (c *cluster) names(ctx context.Context, r kube.Resource, namespace string) ([]metav1.PartialObjectMetadata, error) {
	return list[metav1.PartialObjectMetadata](ctx, c, r, namespace)
}

// known returns the names of the objects of a kind, or none if they cannot be read.
func (c *cluster) known(ctx context.Context, r kube.Resource, namespace string) []string {
	all, _ := c.names(ctx, r, namespace)
	return words.Each(all, func(o metav1.PartialObjectMetadata) string { return o.Name })
}

// object is any object as the server sent it.
type object struct{ kube.Object }

// UnmarshalJSON keeps whole numbers as they are.
func (o *object) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(&o.Object))
}

func (o object) text(path ...string) string {
	s, _ := o.At(path...).(string)
	return s
}

// object returns an object of any kind, which is read once.
func (c *cluster) object(ctx context.Context, r kube.Resource, namespace, name string) (object, error) {
	return one[object](ctx, c, r, namespace, name)
}

func resourceOf(name string) kube.Resource {
	r, _ := kube.Lookup(name)
	return r
}
