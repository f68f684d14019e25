package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// containerSetup is how a container of the image is run. The names of the fields are those of the OCI format.
type containerSetup struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	WorkingDir   string              `json:"WorkingDir"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
}

// copied are the files that the last stage of the Dockerfile takes over. Package main writes the same ones into the image.
var copied = []string{"/etc/ssl/certs/", "/usr/bin/sluice", "/data"}

// readSetup reads the last stage of the Dockerfile, so that the image of a release and the one that operators build are
// run in the same way. It knows the instructions that are in there, and refuses others.
func readSetup(recipe, commit string) (containerSetup, error) {
	s := containerSetup{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}, Labels: map[string]string{}}
	stage := recipe[strings.LastIndex(recipe, "\nFROM ")+1:]
	var copies []string
	for line := range strings.Lines(strings.ReplaceAll(stage, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if err := s.apply(word, strings.TrimSpace(rest), commit, &copies); err != nil {
			return s, fmt.Errorf("%s: %w", line, err)
		}
	}
	if got, want := strings.Join(copies, " "), strings.Join(copied, " "); got != want {
		return s, fmt.Errorf("the image has %s, and the one of a release %s", got, want)
	}
	if want := fmt.Sprintf("%d:%[1]d", imageUser); s.User != want {
		return s, fmt.Errorf("USER is %s, and the owner of the data in a release %s", s.User, want)
	}
	return s, nil
}

// apply reads one instruction. It appends the destination of a COPY to copies.
func (s *containerSetup) apply(word, rest, commit string, copies *[]string) error {
	fields := strings.Fields(rest)
	switch word {
	case "FROM", "ARG": // where the files come from
	case "HEALTHCHECK": // the OCI format has none
	case "COPY":
		*copies = append(*copies, fields[len(fields)-1])
	case "USER":
		s.User = rest
	case "WORKDIR":
		s.WorkingDir = rest
	case "STOPSIGNAL":
		s.StopSignal = rest
	case "ENV":
		s.Env = append(s.Env, fields...)
	case "VOLUME":
		s.Volumes[rest] = struct{}{}
	case "EXPOSE":
		for _, port := range fields {
			s.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case "LABEL":
		for _, label := range fields {
			name, value, _ := strings.Cut(label, "=")
			s.Labels[name] = strings.ReplaceAll(value, "$COMMIT", commit)
		}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &s.Cmd)
	default:
		return fmt.Errorf("the image of a release has no counterpart of %s", word)
	}
	return nil
}
