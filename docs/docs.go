// Package docs holds the documentation as files of the binary: pages, pictures and examples.
//
// README.md is the index: a page that it does not list is in no group. Package handbook reads the pages, and package guide
// serves them. Nothing of the product is imported here.
package docs

import (
	"embed"
	"io/fs"
)

// Photographs and charts would make the binary 2 MB larger; pages show their descriptions in a running server. The dark forms of pictures,
// which end in -dark.png, would make it another 0.8 MB larger; a running server shows the light ones.
//
//go:embed *.md */*.md */*[^k].png examples
var files embed.FS

// Files returns the files of this folder.
func Files() fs.FS { return files }
