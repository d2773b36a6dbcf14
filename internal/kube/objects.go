package kube

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Objects are the objects that a target means, such as k8s:job/migrate or k8s:pods?selector=app=web.
type Objects struct {
	KindName  string // as written
	Name      string // of one object; empty with a selector
	Namespace string // empty: the Pod's
	Selector  string // labels
	Fields    string
	All       bool
}

// queryKeys are the keys of a target's query.
var queryKeys = []string{"selector", "field-selector", "namespace", "all"}

// WantTarget says how a target is written.
const WantTarget = "want k8s:KIND/NAME, k8s:KIND?selector=LABELS or k8s:KIND?all"

// ParseObjects reads what follows k8s: in a target: the kind and the name, and the query behind the question mark. Its
// errors do not quote text that may be anything.
func ParseObjects(opaque, query string) (q Objects, err error) {
	if opaque == "" {
		return q, errors.New(WantTarget + ", without // after the colon")
	}
	kind, name, named := strings.Cut(opaque, "/")
	if q.KindName, err = url.PathUnescape(kind); err != nil || q.KindName == "" || strings.Trim(q.KindName, words.NameCharacters) != "" {
		return q, errors.New("the kind must be one that kubectl takes, such as pod, deploy or jobs.batch: " + WantTarget)
	}
	if strings.Contains(name, "/") {
		return q, errors.New("the namespace goes at the end: k8s:KIND/NAME?namespace=NAMESPACE")
	}
	if q.Name, err = url.PathUnescape(name); err != nil || named && (q.Name == "" || strings.Trim(q.Name, words.NameCharacters+":") != "") {
		return q, errors.New("the name after the kind is not a valid object name; is a variable not set? " + WantTarget)
	}
	for part := range strings.SplitSeq(query, "&") {
		if err := q.set(part); err != nil {
			return q, err
		}
	}
	several := q.Selector != "" || q.Fields != "" || q.All
	switch {
	case named && several:
		return q, errors.New("a name and a selector are mutually exclusive")
	case !named && !several:
		return q, errors.New("which objects? " + WantTarget)
	case q.All && (q.Selector != "" || q.Fields != ""):
		return q, errors.New("?all and a selector are mutually exclusive")
	}
	return q, nil
}

// set reads one part of the query, such as selector=app=web.
func (q *Objects) set(part string) error {
	if part == "" {
		return nil
	}
	key, value, valued := strings.Cut(part, "=")
	value, err := url.PathUnescape(value)
	switch {
	case err != nil:
		return errors.New("invalid percent-encoding after ?")
	case !slices.Contains(queryKeys, key):
		meant := suggest.Closest(key, queryKeys)
		if meant != "" {
			meant = "did you mean ?" + meant + "= ? "
		}
		return errors.New("the parameter after ? is unknown: " + meant + "valid ones are " + strings.Join(queryKeys, ", ") + "; expectations follow a #")
	case key == "all" && valued:
		return errors.New("?all takes no value")
	case key == "selector" && q.Selector != "", key == "field-selector" && q.Fields != "", key == "namespace" && q.Namespace != "":
		return fmt.Errorf("?%s= is given twice", key)
	case key != "all" && value == "":
		return fmt.Errorf("?%s= needs a value; is a variable not set?", key)
	}
	switch key {
	case "all":
		q.All = true
	case "selector":
		q.Selector = value
	case "field-selector":
		q.Fields = value
	case "namespace":
		if strings.Trim(value, words.NameCharacters) != "" {
			return errors.New("?namespace= is not a valid namespace name")
		}
		q.Namespace = value
	}
	return nil
}

// Text returns the target of the objects, with escaped values.
func (q Objects) Text(escape func(string) string) string {
	s := "k8s:" + q.KindName
	if q.Name != "" {
		s += "/" + q.Name
	}
	var query []string
	for _, part := range [][2]string{{"selector", q.Selector}, {"field-selector", q.Fields}, {"namespace", q.Namespace}} {
		if part[1] != "" {
			query = append(query, part[0]+"="+escape(part[1]))
		}
	}
	if q.All {
		query = append(query, "all")
	}
	if len(query) > 0 {
		s += "?" + strings.Join(query, "&")
	}
	return s
}
