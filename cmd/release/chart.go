package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// developing is the version that stands in the files of the chart, where a release has its own.
const developing = "0.0.0-devel"

// packChart packs a chart as helm package --version VERSION --app-version VERSION does, which cannot give the files
// fixed times. The files are those that git has.
func packChart(chart, dir, version string, at time.Time) error {
	names, err := tracked(chart)
	if err != nil {
		return err
	}
	if slices.Contains(names, ".helmignore") {
		return fmt.Errorf("pack the chart %s: it has a .helmignore, which is not read\nhint: move what it leaves out to another directory", chart)
	}
	var members []member
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte(developing), []byte(version))
		members = append(members, member{path: name, content: content, mode: 0o644})
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.path == "Chart.yaml" })
	if i < 0 {
		return fmt.Errorf("pack the chart %s: it has no Chart.yaml that git knows", chart)
	}
	name, err := checkMetadata(members[i].content, version)
	if err != nil {
		return fmt.Errorf("pack the chart %s: %w", chart, err)
	}
	// Chart.yaml is first, as helm writes it: a reader of the stream then knows the chart.
	metadata := members[i]
	members = slices.Insert(slices.Delete(members, i, i+1), 0, metadata)
	return writeArchive(filepath.Join(dir, name+"-"+version+".tgz"), name, members, at)
}

// checkMetadata returns the name in Chart.yaml. It refuses a chart whose versions are not that of the release: its
// steps and flags are what the image with the same version has.
func checkMetadata(chartYAML []byte, version string) (name string, err error) {
	var metadata struct {
		Name, Version string
		AppVersion    string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(chartYAML, &metadata); err != nil {
		return "", err
	}
	for _, field := range [][2]string{{"version", metadata.Version}, {"appVersion", metadata.AppVersion}} {
		if name, got := field[0], field[1]; got != version {
			return "", fmt.Errorf("%s in Chart.yaml is %s, want %s\nhint: write %s: %s, which a release replaces", name, got, version, name, developing)
		}
	}
	return metadata.Name, nil
}
