package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"time"
)

// The parts of a CycloneDX document that we fill. The order of the fields is that of the file.
type (
	billOfMaterials struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		SerialNumber string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     billMetadata `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	billMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref        string     `json:"bom-ref"`
		Type       string     `json:"type"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// bill returns the SBOM of a binary: the modules that the linker has noted in it, and Go's standard
// library. Modules that only tests or tools use are not in the binary, and not in the list.
func (r *release) bill(bin, system, machine string) ([]byte, error) {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil, fmt.Errorf("read what the binary contains: %w", err)
	}
	binary, err := os.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	self := component{Type: "application", Name: "sluice", Version: r.version, PURL: fmt.Sprintf("pkg:generic/sluice@%s?os=%s&arch=%s", r.version, system, machine)}
	self.Ref = self.PURL
	self.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}
	if r.commit != "" {
		self.Properties = []property{{"sluice:commit", r.commit}}
	}
	version := info.GoVersion[len("go"):]
	parts := []component{{Ref: "pkg:golang/std@" + version, Type: "library", Name: "std", Version: version, PURL: "pkg:golang/std@" + version}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
		if m.Sum != "" { // as in go.sum
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		parts = append(parts, c)
	}
	doc := billOfMaterials{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		// A UUID of version 8, made from the binary, so that the same binary has the same one.
		SerialNumber: fmt.Sprintf("urn:uuid:%x-%x-8%03x-%x-%x", sum[:4], sum[4:6], int(sum[6]&0x0f)<<8|int(sum[7]), []byte{sum[8]&0x3f | 0x80, sum[9]}, sum[10:16]),
		Metadata:     billMetadata{r.date.Format(time.RFC3339), self},
		Components:   parts,
		Dependencies: []dependency{{Ref: self.Ref}},
	}
	for _, c := range parts {
		doc.Dependencies[0].DependsOn = append(doc.Dependencies[0].DependsOn, c.Ref)
	}
	return indented(doc)
}
