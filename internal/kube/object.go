package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Object is an object as the server sent it, without its managedFields: maps are map[string]any, lists []any, whole
// numbers int64 and other numbers float64. Several may hold the same one, so it is not to be changed.
type Object map[string]any

// At returns what is at the path of keys, or nil.
func (o Object) At(path ...string) any {
	var v any = map[string]any(o)
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// Name returns metadata.name.
func (o Object) Name() string { return o.meta("name") }

// Namespace returns metadata.namespace, which is empty for an object without a namespace.
func (o Object) Namespace() string { return o.meta("namespace") }

func (o Object) meta(key string) string {
	s, _ := o.At("metadata", key).(string)
	return s
}

// How much a server can make us hold. The objects of a cluster are 1.5 MiB at
// most (etcd's limit of a request), and a wait is for some of them.
const (
	maxObject = 4 << 20  // bytes of one object, or event, as JSON
	maxKept   = 64 << 20 // bytes of all objects of one query that are kept, as JSON
	maxStatus = 64 << 10 // bytes of an answer that is an error
)

var (
	errObjectTooLong = fmt.Errorf("an object is longer than %d MiB", maxObject>>20)
	errTooMuch       = fmt.Errorf("the objects exceed %d MiB: narrow them down with a name or a selector", maxKept>>20)
)

// answerError is the error of an answer that no Kubernetes API server gives. Its text does not contain the answer.
type answerError struct{ Err error }

func (e *answerError) Error() string {
	var syntax *json.SyntaxError
	if errors.As(e.Err, &syntax) || errors.As(e.Err, new(*json.UnmarshalTypeError)) {
		return "the answer is not that of a Kubernetes API server" // the error quotes it
	}
	if errors.Is(e.Err, errTooMuch) {
		return e.Err.Error()
	}
	return "the answer is not that of a Kubernetes API server: " + e.Err.Error()
}

func (e *answerError) Unwrap() error { return e.Err }

// meter fails once more than left bytes were read; who reads fills it up for each part that has a limit.
type meter struct {
	r    io.Reader
	left int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errObjectTooLong
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// jsonStream reads JSON part by part. The first error is that of reading where
// there is one: a connection that breaks is not bad syntax.
type jsonStream struct {
	meter meter
	dec   *json.Decoder
}

func newStream(r io.Reader) *jsonStream {
	s := &jsonStream{meter: meter{r, maxObject}}
	s.dec = json.NewDecoder(&s.meter)
	return s
}

func (s *jsonStream) value(v any) error {
	s.meter.left = maxObject
	return answer(s.dec.Decode(v))
}

func (s *jsonStream) token() (json.Token, error) {
	s.meter.left = maxObject
	t, err := s.dec.Token()
	return t, answer(err)
}

// delim reads a token, which must be this one.
func (s *jsonStream) delim(want json.Delim) error {
	t, err := s.token()
	if err == nil && t != want {
		err = &answerError{errors.New("not the JSON expected")}
	}
	return err
}

// answer tells bad content from a bad connection.
func answer(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, errObjectTooLong) || errors.Is(err, errTooMuch) {
		return &answerError{err}
	}
	return err
}

// meta is the part of an object, or a list, that identifies it.
type meta struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
}

// readList reads one page of a list. It passes the objects to take one by one, as JSON that is valid until take
// returns, so that only what take keeps is in memory. Items of a list have no kind of their own.
func readList(r io.Reader, take func(item []byte) error) (m meta, err error) {
	defer func() {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}()
	s := newStream(r)
	if err := s.delim('{'); err != nil {
		return m, err
	}
	complete := false
	for s.dec.More() {
		key, err := s.token()
		if err != nil {
			return m, err
		}
		switch key {
		case "metadata":
			err = s.value(&m.Metadata)
		case "items":
			complete = true
			err = readItems(s, take)
		default:
			var skipped json.RawMessage
			err = s.value(&skipped)
		}
		if err != nil {
			return m, err
		}
	}
	if err := s.delim('}'); err != nil {
		return m, err
	}
	if !complete {
		return m, &answerError{errors.New("not a list")}
	}
	return m, nil
}

func readItems(s *jsonStream, take func([]byte) error) error {
	t, err := s.token()
	if err != nil || t == nil { // null is an empty list
		return err
	}
	if t != json.Delim('[') {
		return &answerError{errors.New("not a list")}
	}
	var item json.RawMessage
	for s.dec.More() {
		item = item[:0]
		if err := s.value(&item); err != nil {
			return err
		}
		if err := take(item); err != nil {
			return answer(err)
		}
	}
	return s.delim(']')
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// readEvents gives each event of a watch to take, valid until it returns. The orderly end of a watch is nil.
func readEvents(r io.Reader, take func(event) error) error {
	s := newStream(r)
	var e event
	for {
		e.Type, e.Object = "", e.Object[:0]
		err := s.value(&e)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := take(e); err != nil {
			return answer(err)
		}
	}
}

// peek returns what an object is, without decoding the rest of it.
func peek(data []byte) (m meta, err error) {
	err = answer(json.Unmarshal(data, &m))
	return m, err
}

// decode returns the object in data.
func decode(data []byte) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &answerError{err}
	}
	m, ok := plain(v).(map[string]any)
	if !ok {
		return nil, &answerError{errors.New("not an object")}
	}
	o := Object(m)
	metadata, ok := m["metadata"].(map[string]any)
	if !ok || o.Name() == "" {
		return nil, &answerError{errors.New("an object without a name")}
	}
	delete(metadata, "managedFields") // bulk that no wait is about
	return o, nil
}

// decode reads an object of the query.
func (q Query) decode(data []byte) (Object, error) {
	o, err := decode(data)
	if err == nil && q.Sparse {
		o.sparse()
	}
	return o, err
}

// bulk is what most of an object consists of, and what says nothing of its state. Not to keep it halves the memory for
// a thousand Pods, and leaves the values of Secrets with the server's answer.
var bulk = map[string][]string{
	"metadata":   {"annotations"},
	"spec":       {"containers", "initContainers", "ephemeralContainers", "volumes", "tolerations", "affinity", "template", "volumeClaimTemplates", "versions"},
	"data":       nil, // all of it
	"binaryData": nil,
}

// sparse takes the bulk out of an object.
func (o Object) sparse() {
	for part, keys := range bulk {
		if keys == nil {
			delete(o, part)
		}
		m, _ := o[part].(map[string]any)
		for _, key := range keys {
			delete(m, key)
		}
	}
}

// plain turns the numbers in v into int64 where they are whole and fit, and float64 where not.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil { // beyond what a float64 holds
			return math.Copysign(math.MaxFloat64, f)
		}
		return f
	}
	return v
}
