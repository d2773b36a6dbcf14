package render

import (
	"errors"
	"slices"
	"strings"

	"initbox/internal/secret"
	"initbox/render/engine"
	"initbox/render/format"
)

// masked returns an error of a template without the words that depend on a secret, however it was transformed: those
// that differ in other, the error with other secrets. other is nil if there was no such error.
func masked(err, other error) error {
	if other != nil && err.Error() == other.Error() {
		return err
	}
	var missing, otherMissing *engine.MissingError
	if errors.As(err, &missing) {
		errors.As(other, &otherMissing)
		return maskMissing(missing, otherMissing)
	}
	var placed, otherPlaced *engine.Error
	if !errors.As(err, &placed) {
		if other == nil {
			return err // of a bound: see engine.Limits
		}
		return errors.New(mask(err.Error(), other.Error()))
	}
	if !errors.As(other, &otherPlaced) {
		otherPlaced = &engine.Error{}
	}
	text := mask(placed.Text, otherPlaced.Text)
	if placed.Function != "" && strings.HasPrefix(text, secret.Mark) {
		text = placed.Function + ": " + text // the template has the name, not the secret
	}
	return &engine.Error{Position: placed.Position, Text: text, Fix: mask(placed.Fix, otherPlaced.Fix)}
}

// maskedCheck returns the error of a check of a result without the keys in it that depend on a secret: those that are
// not in other, the error with other secrets. other is nil if there was no such error.
func maskedCheck(err, other error) error {
	if other != nil && err.Error() == other.Error() {
		return err
	}
	var malformed *format.Error
	if errors.As(err, &malformed) {
		return malformed.Keyless()
	}
	var violations, otherViolations *format.SchemaError
	if !errors.As(err, &violations) {
		return errors.New(secret.Mark)
	}
	if !errors.As(other, &otherViolations) {
		otherViolations = &format.SchemaError{}
	}
	hidden := &format.SchemaError{}
	for _, v := range violations.Violations {
		if !slices.ContainsFunc(otherViolations.Violations, func(o format.Violation) bool { return o.Pointer == v.Pointer }) {
			v.Pointer = secret.Mark
		}
		hidden.Violations = append(hidden.Violations, v)
	}
	slices.SortStableFunc(hidden.Violations, func(a, b format.Violation) int { return strings.Compare(a.Pointer, b.Pointer) })
	return mismatch(hidden)
}

// maskMissing masks the names that differ with other secrets.
func maskMissing(err, other *engine.MissingError) error {
	if other == nil {
		other = &engine.MissingError{}
	}
	result := &engine.MissingError{}
	for i, m := range err.Missing {
		if !slices.Contains(other.Missing, m) {
			at := engine.Input{}
			if len(err.Missing) == len(other.Missing) {
				at = other.Missing[i]
			}
			m.Name, m.Why = mask(m.Name, at.Name), mask(m.Why, at.Why)
		}
		result.Missing = append(result.Missing, m)
	}
	return result
}

// mask hides the words of text from the first to the last that differs from other.
func mask(text, other string) string {
	if text == other {
		return text
	}
	a, b := strings.Split(text, " "), strings.Split(other, " ")
	from, to := 0, 0
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	for to < min(len(a), len(b))-from && a[len(a)-1-to] == b[len(b)-1-to] {
		to++
	}
	return strings.Join(slices.Concat(a[:from], []string{secret.Mark}, a[len(a)-to:]), " ")
}
