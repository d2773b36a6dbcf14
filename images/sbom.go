package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// sbomType is the media type of an SBOM in CycloneDX's JSON, and the artifactType of what refers to a manifest with
// one.
const sbomType = "application/vnd.cyclonedx+json"

// sbom returns the bill of materials of a binary, as CycloneDX 1.6 in JSON: the modules that the linker recorded in
// it, with the sums of go.sum, and Go's standard library. Unlike go.mod, the binary knows which modules are really in
// it. The same binary, version and time give the same bytes.
func sbom(binary, version string, made time.Time) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", binary, err)
	}
	sum := sha256.Sum256(content)
	main := cdx.Component{
		BOMRef: purl(info.Main.Path, version), PackageURL: purl(info.Main.Path, version),
		Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: licence}}},
		Properties: settings(info.Settings),
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{
		BOMRef: purl("std", std), PackageURL: purl("std", std),
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: std, Description: "the standard library of Go",
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, cdx.Component{
			BOMRef: purl(m.Path, m.Version), PackageURL: purl(m.Path, m.Version),
			Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}},
		})
	}
	var needs []string
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewHash(sha256.New(), uuid.Nil, append(sum[:], version...), 8).String()
	bom.Metadata = &cdx.Metadata{Timestamp: made.UTC().Format(time.RFC3339), Component: &main}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// purl returns the package URL of a module: https://github.com/package-url/purl-spec, type golang.
func purl(module, version string) string { return "pkg:golang/" + module + "@" + version }

// settings returns how the binary was built, as go version -m prints it.
func settings(list []debug.BuildSetting) *[]cdx.Property {
	properties := []cdx.Property{}
	for _, s := range list {
		properties = append(properties, cdx.Property{Name: "go.build:" + s.Key, Value: s.Value})
	}
	return &properties
}
