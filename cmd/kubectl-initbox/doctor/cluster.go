package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
)

// Clients are what reaches the API server.
type Clients struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
}

// NewClients returns clients for the server. It connects when they are used. They ask for up to 50 requests a second,
// and read what is typed in the binary form, which takes a third of the time.
func NewClients(config *rest.Config) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 200
	config.WarningHandler = rest.NoWarnings{}
	plain := config
	typed := rest.CopyConfig(config)
	typed.AcceptContentTypes, typed.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	var c Clients
	var errs [3]error
	c.Kube, errs[0] = kubernetes.NewForConfig(typed)
	c.Metadata, errs[1] = metadata.NewForConfig(plain)
	c.Dynamic, errs[2] = dynamic.NewForConfig(plain)
	return &c, errors.Join(errs[:]...)
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
	*Clients
	lists  map[string]any
	unread map[string]string // why, by what: "secrets in shop"
	silent int               // requests without an answer, in a row
}

func newCluster(clients *Clients) *cluster {
	return &cluster{Clients: clients, lists: map[string]any{}, unread: map[string]string{}}
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

// note remembers what could not be read; what does not exist is no such case.
func (c *cluster) note(err error, what, namespace string) {
	if err == nil || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
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

// page is a request for one page of a list: a method of the clients.
type page[L lists] func(ctx context.Context, o metav1.ListOptions) (L, error)

type lists interface {
	metav1.ListInterface
	runtime.Object
}

// list returns the objects of all pages, and reads them once. known is false if they could not be read.
func list[T any, L lists](ctx context.Context, c *cluster, what, namespace, fields string, get page[L]) (all []T, known bool) {
	key := what + "\n" + namespace
	if cached, ok := c.lists[key]; ok {
		all, known = cached.([]T)
		return all, known
	}
	all, err := readAll[T](ctx, c, fields, get)
	c.note(err, what, namespace)
	if err != nil {
		c.lists[key] = err
		return nil, false
	}
	c.lists[key] = all
	return all, true
}

// readAll reads all pages. Where a page has expired meanwhile, the list is read again at once.
func readAll[T any, L lists](ctx context.Context, c *cluster, fields string, get page[L]) ([]T, error) {
	all := []T{}
	o := metav1.ListOptions{Limit: pageSize, FieldSelector: fields}
	for {
		var answer L
		err := c.ask(ctx, func(ctx context.Context) (err error) { answer, err = get(ctx, o); return err })
		switch {
		case apierrors.IsResourceExpired(err) && o.Continue != "":
			o.Limit, o.Continue, all = 0, "", all[:0]
			continue
		case err != nil:
			return nil, err
		}
		items, err := apimeta.GetItemsPtr(answer)
		if err != nil {
			return nil, err
		}
		for _, item := range *items.(*[]T) {
			any(&item).(metav1.Object).SetManagedFields(nil) // large, and says nothing here
			all = append(all, item)
		}
		if o.Continue = answer.GetContinue(); o.Continue == "" {
			return all, nil
		}
	}
}

func (c *cluster) services(ctx context.Context, namespace string) ([]corev1.Service, bool) {
	return list[corev1.Service](ctx, c, "services", namespace, "", c.Kube.CoreV1().Services(namespace).List)
}

// serviceNamed returns a Service, or nil if there is none, or if they could not be read.
func (c *cluster) serviceNamed(ctx context.Context, namespace, name string) (s *corev1.Service, known bool) {
	all, known := c.services(ctx, namespace)
	if i := slices.IndexFunc(all, func(s corev1.Service) bool { return s.Name == name }); i >= 0 {
		s = &all[i]
	}
	return s, known
}

func (c *cluster) slices(ctx context.Context, namespace string) ([]discoveryv1.EndpointSlice, bool) {
	return list[discoveryv1.EndpointSlice](ctx, c, "endpointslices.discovery.k8s.io", namespace, "", c.Kube.DiscoveryV1().EndpointSlices(namespace).List)
}

// events returns the warnings of a namespace.
func (c *cluster) events(ctx context.Context, namespace string) []corev1.Event {
	all, _ := list[corev1.Event](ctx, c, "events", namespace, "type=Warning", c.Kube.CoreV1().Events(namespace).List)
	return all
}

// pods returns the Pods of a namespace, or of all.
func (c *cluster) pods(ctx context.Context, namespace string) ([]corev1.Pod, bool) {
	all, ok := c.lists["pods\n"].([]corev1.Pod)
	if _, split := c.lists["pods\n"+namespace]; ok && !split {
		byNamespace := map[string][]corev1.Pod{namespace: {}}
		for _, p := range all {
			byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p)
		}
		for name, pods := range byNamespace {
			c.lists["pods\n"+name] = pods
		}
	}
	return list[corev1.Pod](ctx, c, "pods", namespace, "", c.Kube.CoreV1().Pods(namespace).List)
}

// names returns the metadata of the objects of a kind, "" for all namespaces: their names, and no Secret's data.
func (c *cluster) names(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]metav1.PartialObjectMetadata, bool) {
	what := "names of " + resource.GroupResource().String()
	if namespace == "" {
		what += " of all namespaces"
	}
	return list[metav1.PartialObjectMetadata](ctx, c, what, namespace, "", c.Metadata.Resource(resource).Namespace(namespace).List)
}

// known returns the names of the objects of a kind, or none if they cannot be read.
func (c *cluster) known(ctx context.Context, r kube.Resource, namespace string) []string {
	all, _ := c.names(ctx, gvr(r), namespace)
	return words.Each(all, func(o metav1.PartialObjectMetadata) string { return o.Name })
}

// one returns an object, which is read once, or the error of the request.
func one[T any](ctx context.Context, c *cluster, what, namespace, name string, get func(context.Context) (*T, error)) (*T, error) {
	key := fmt.Sprintf("%T\n%s\n%s/%s", *new(T), what, namespace, name) // a Job may be read whole, and its metadata alone
	if cached, ok := c.lists[key]; ok {
		if err, failed := cached.(error); failed {
			return nil, err
		}
		return cached.(*T), nil
	}
	var o *T
	err := c.ask(ctx, func(ctx context.Context) (err error) { o, err = get(ctx); return err })
	c.note(err, what, namespace)
	if err != nil {
		c.lists[key] = err
		return nil, err
	}
	c.lists[key] = o
	return o, nil
}
