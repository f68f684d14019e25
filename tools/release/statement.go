package main

import "runtime"

// The parts of an in-toto statement with SLSA provenance that we fill. The order of the fields is that of the file.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		InternalParameters   map[string]any `json:"internalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID string `json:"id"`
	}
)

// unsigned is what the statement says about itself.
const unsigned = "This statement is not signed. It is worth as much as the place that you have it from, unless its publisher has signed it or SHA256SUMS."

// statement returns the provenance of the files written so far: what they were built from, and how. It has no time, so
// that a second build of the same source gives the same statement.
func (r *release) statement(platforms []string) ([]byte, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range sorted(r.written) {
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": r.written[name]}})
	}
	s.Predicate.BuildDefinition = buildDefinition{
		BuildType:          "urn:sluice:build:make-release:v1",
		ExternalParameters: map[string]any{"version": r.version, "source": r.source, "platforms": platforms},
		InternalParameters: map[string]any{
			"go": runtime.Version(), "environment": settings, "flags": []string{"-trimpath", "-buildvcs=false", cold, "-ldflags=" + r.flags()},
			"sourceDateEpoch": r.date.Unix(), "signature": unsigned,
		},
	}
	if r.commit != "" {
		s.Predicate.BuildDefinition.ResolvedDependencies = []resource{{URI: r.source, Digest: map[string]string{"gitCommit": r.commit}}}
	}
	s.Predicate.RunDetails.Builder.ID = r.builder
	return indented(s)
}
