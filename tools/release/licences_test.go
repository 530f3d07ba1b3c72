package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withLicence returns a module whose folder has one licence file.
func withLicence(t *testing.T, text string) module {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	texts, licences, err := testRelease(t).read(dir)
	if err != nil || len(texts) != 1 {
		t.Fatal(texts, err)
	}
	return module{path: "example.com/lib", version: "v1.0.0", licences: licences}
}

func TestLicenceThatIsNotAllowedIsRefused(t *testing.T) {
	own, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if err := withLicence(t, string(own)).refused(); err != nil {
		t.Errorf("Apache-2.0: %v", err)
	}
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License " +
		"as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.\n\n" +
		"This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of " +
		"MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.\n\n" +
		"You should have received a copy of the GNU General Public License along with this program. If not, see " +
		"<https://www.gnu.org/licenses/>.\n"
	if err := withLicence(t, gpl).refused(); err == nil {
		t.Error("GPL-3.0 is allowed")
	}
	if err := withLicence(t, "All rights reserved. Do not copy.").refused(); err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("a module without a known licence: %v", err)
	}
}

// "make artifacts" runs this on the product's binary.
func TestBinaryIsShippedOnlyIfAllLicencesAllowIt(t *testing.T) {
	r := testRelease(t)
	binary := binaries(t, r)[imagePlatforms[0]]
	files := must(r.licenceFiles(binary))(t)
	if len(files) != 2 || !strings.Contains(string(files[1].body), "==== github.com/spf13/cobra v") {
		t.Fatalf("%d files", len(files))
	}
	cobra := must(r.moduleDirs())(t)["github.com/spf13/cobra"]
	r.modules[cobra] = module{licences: []string{"Apache-2.0", "GPL-3.0"}}
	if _, err := r.licenceFiles(binary); err == nil || !strings.Contains(err.Error(), "spf13/cobra v") || !strings.Contains(err.Error(), "licence GPL-3.0") {
		t.Errorf("a module under GPL-3.0: %v", err)
	}
}
