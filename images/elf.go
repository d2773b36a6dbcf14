package main

import (
	"bytes"
	"debug/elf"
	"fmt"
)

// machines are what the header of a binary says for each architecture.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390,
	"riscv64": elf.EM_RISCV,
}

// checkBinary refuses a binary that an image for an architecture could not run: of another architecture, or one that
// needs a loader, which the image does not have. Both would fail on a node, with "exec format error" and "no such file
// or directory".
func checkBinary(name string, content []byte, arch string) error {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s is not a program for Linux: %w", name, err)
	}
	if f.Machine != machines[arch] {
		return fmt.Errorf("%s was built for %s, not for %s", name, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, and the image has no libraries\nhint: build it with CGO_ENABLED=0", name)
		}
	}
	return nil
}
