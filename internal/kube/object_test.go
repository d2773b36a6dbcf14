package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDecode(t *testing.T) {
	o, err := decode([]byte(`{"metadata":{"name":"n","namespace":"ns","managedFields":[1],"labels":{"a":"b"}},"i":9223372036854775807,"big":9223372036854775808,"f":1.0,"huge":1e999,"l":[1,{"x":-2}],"null":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.Name() != "n" || o.Namespace() != "ns" || o.At("metadata", "labels", "a") != "b" || o.At("metadata", "managedFields") != nil ||
		o.At("i") != int64(math.MaxInt64) || o.At("big") != float64(1<<63) || o.At("f") != 1.0 || o.At("huge") != math.MaxFloat64 ||
		fmt.Sprint(o.At("l")) != "[1 map[x:-2]]" || o.At("null") != nil || o.At("l", "x") != nil || o.At("no", "way") != nil {
		t.Errorf("%#v", o)
	}
	if Object(nil).At("a") != nil || Object(nil).Name() != "" {
		t.Error("no object has something")
	}
}

func TestReadEvents(t *testing.T) {
	const good = `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`
	for text, want := range map[string]string{
		"":                        "[] <nil>",
		good + "\n" + good:        "[ADDED ADDED] <nil>",
		good + good[:20]:          "[ADDED] unexpected EOF",
		good + "}":                "[ADDED] the answer is not that of a Kubernetes API server",
		`{"type":7}`:              "[] the answer is not that of a Kubernetes API server",
		good + `{"object":{}}`:    "[ADDED ] <nil>",
		"\n \n" + good + "\n\n\n": "[ADDED] <nil>",
	} {
		var types []string
		err := readEvents(iotest.OneByteReader(strings.NewReader(text)), func(e event) error {
			types = append(types, e.Type)
			return nil
		})
		if got := fmt.Sprint(types, " ", err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	broken := fmt.Errorf("reset")
	if err := readEvents(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), func(event) error { return nil }); err != broken {
		t.Errorf("%v, want the connection's error", err)
	}
}

func TestReadList(t *testing.T) {
	for text, want := range map[string]string{
		`{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"5","continue":"c"},"x":{"y":[1]}}`: "[a b] 5 c <nil>",
		`{"metadata":{"resourceVersion":"5"},"items":null}`: "[] 5  <nil>",
		`{"metadata":{"resourceVersion":"5"}}`:              "[] 5  the answer is not that of a Kubernetes API server: not a list",
		`{"items":{}}`:                                      "[]   the answer is not that of a Kubernetes API server: not a list",
		`[]`:                                                "[]   the answer is not that of a Kubernetes API server: not the JSON expected",
		`{"items":[`:                                        "[]   unexpected EOF",
		``:                                                  "[]   unexpected EOF",
	} {
		var names []string
		m, err := readList(strings.NewReader(text), func(item []byte) error {
			m, err := peek(item)
			names = append(names, m.Metadata.Name)
			return err
		})
		if got := fmt.Sprintf("%v %s %s %v", names, m.Metadata.ResourceVersion, m.Metadata.Continue, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// FuzzEvents: whatever a server sends as a watch, an object that is kept has a
// name, and what is read again is the same.
func FuzzEvents(f *testing.F) {
	f.Add(`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"7","managedFields":[{}]},"n":1.5e3}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}`)
	f.Add(`{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","details":{"retryAfterSeconds":1}}}`)
	f.Add(`{"type":"DELETED","object":{"metadata":{"name":"a"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c := New(&Config{}, Options{})
		follower := c.Follow(Query{Resource: pods, Namespace: "default"})
		follower.whole.objects = map[string]entry{}
		readEvents(strings.NewReader(text), follower.whole.take)
		size := 0
		for name, e := range follower.whole.objects {
			if name == "" || e.Name() != name {
				t.Errorf("%q is %v", name, e.Object)
			}
			size += e.size
			if _, err := json.Marshal(e.Object); err != nil {
				t.Error(err)
			}
		}
		if size != follower.whole.size {
			t.Errorf("size %d, want %d", follower.whole.size, size)
		}
	})
}

func FuzzList(f *testing.F) {
	f.Add(`{"kind":"PodList","metadata":{"resourceVersion":"1","continue":"x"},"items":[{"metadata":{"name":"a"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := readList(strings.NewReader(text), func(item []byte) error {
			_, err := decode(item)
			return err
		})
		if err == nil && !json.Valid([]byte(strings.TrimSpace(text))) {
			// What follows the list is not read.
			var v any
			if err := json.NewDecoder(strings.NewReader(text)).Decode(&v); err != nil {
				t.Error(err)
			}
		}
	})
}

// What tells the state of an object is kept of it, and the bulk is not.
func TestSparse(t *testing.T) {
	const whole = `{"metadata":{"name":"n","labels":{"a":"b"},"annotations":{"big":"x"}},"data":{"password":"czNjcjN0"},
		"spec":{"replicas":2,"selector":{"app":"n"},"nodeName":"m","containers":[{}],"volumes":[],"template":{"spec":{}}},"status":{"phase":"Running"}}`
	o, err := Query{Sparse: true}.decode([]byte(whole))
	want := Object{
		"metadata": map[string]any{"name": "n", "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"replicas": int64(2), "selector": map[string]any{"app": "n"}, "nodeName": "m"},
		"status":   map[string]any{"phase": "Running"},
	}
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("got %v, %v, want %v", o, err, want)
	}
	if o, err := (Query{}).decode([]byte(whole)); err != nil || o.At("data", "password") == nil || o.At("spec", "containers") == nil {
		t.Errorf("not sparse: %v, %v", o, err)
	}
	if _, err := (Query{Sparse: true}).decode([]byte(`{"metadata":{"name":"n"},"spec":7,"data":[]}`)); err != nil {
		t.Errorf("an object of another shape: %v", err)
	}
}
