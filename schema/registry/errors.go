package registry

import "fmt"

// Codes of errors. The first three digits are the status of HTTP.
const (
	CodeSubjectNotFound          = 40401
	CodeVersionNotFound          = 40402
	CodeSchemaNotFound           = 40403
	CodeSubjectSoftDeleted       = 40404
	CodeSubjectNotSoftDeleted    = 40405
	CodeVersionSoftDeleted       = 40406
	CodeVersionNotSoftDeleted    = 40407
	CodeNoSubjectConfig          = 40408
	CodeNoSubjectMode            = 40409
	CodeIncompatible             = 409
	CodeInvalidSchema            = 42201
	CodeInvalidVersion           = 42202
	CodeInvalidCompatibility     = 42203
	CodeInvalidMode              = 42204
	CodeOperationNotPermitted    = 42205
	CodeReferenceExists          = 42206
	CodeIDDoesNotMatch           = 42207
	CodeInvalidSubject           = 42208
	CodeSchemaTooLarge           = 42209
	CodeInvalidRuleSet           = 42210
	CodeContextNotEmpty          = 42211
	CodeStore                    = 50001
	CodeTimeout                  = 50002
	CodeForwarding               = 50003
	CodeUnknownLeader            = 50004
	CodeUnprocessable            = 422
	CodeBadRequest               = 400
	codeInternal                 = 500
	invalidCompatibilityText     = "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
	invalidModeText              = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."
	invalidVersionText           = `The specified version '%s' is not a valid version id. Allowed values are between [1, 2^31-1] and the string "latest"`
	maxQuoted                    = 200 // characters of a client's text in an error
	incompatibleSubjectText      = `Schema being registered is incompatible with an earlier schema for subject "%s", details: %s`
	differentType                = "Incompatible because of different schema type"
	reservedFieldRemovedText     = "The new schema has reserved field %s removed from its metadata which is present in the old schema's metadata."
	reservedFieldConflictingText = "The new schema has field that conflicts with the reserved field %s."
)

// Error is an answer that is not what the client wanted, under the original's code and in its words.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// Status is the status of HTTP.
func (e *Error) Status() int {
	for c := e.Code; ; c /= 10 {
		if c < 1000 {
			return c
		}
	}
}

func failf(code int, format string, a ...any) error { return &Error{code, fmt.Sprintf(format, a...)} }

func subjectNotFound(subject string) error {
	return failf(CodeSubjectNotFound, "Subject '%s' not found.", subject)
}
func versionNotFound(n int) error { return failf(CodeVersionNotFound, "Version %d not found.", n) }
func schemaNotFound(id string) error {
	if id == "" {
		return failf(CodeSchemaNotFound, "Schema not found")
	}
	return failf(CodeSchemaNotFound, "Schema %s not found", id)
}
func invalidSubject(name string) error {
	return failf(CodeInvalidSubject, "The specified subject '%s' is not a valid.", cut(name))
}
func notPermitted(format string, a ...any) error {
	return failf(CodeOperationNotPermitted, format, a...)
}

// cut is a client's text, short enough to be told back.
func cut(s string) string {
	r := []rune(s)
	if len(r) <= maxQuoted {
		return s
	}
	return string(r[:maxQuoted]) + "…"
}
