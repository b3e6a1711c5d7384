package service

import (
	"strconv"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const (
	problemMediaType = "application/problem+json"
	problemType      = "https://iana.org/assignments/http-problem-types#quota-exceeded"
)

// appendProblem appends the body of a denial (RFC 9457). All texts in it are
// printable ASCII with quotation marks escaped, so it needs no JSON encoder.
func appendProblem(b []byte, v *view, d *algorithm.Decision) []byte {
	retry := v.wait(d)
	b = append(b, `{"type":"`+problemType+`","title":"Too Many Requests","error":"rate_limited","message":"`...)
	if d.Never {
		b = append(append(append(b, "The request costs more than the limit of "...), v.allows...), " ever allows at once"...)
	} else {
		b = append(append(append(b, "The limit of "...), v.allows...), " is reached; try again in "...)
		b = strconv.AppendInt(b, retry, 10)
		b = append(b, " s"...)
	}
	b = append(b, `.","retry_after":`...)
	b = strconv.AppendInt(b, retry, 10)
	b = append(b, `,"violated-policies":[`...)
	b = append(b, v.name...)
	return append(b, "]}\n"...)
}
