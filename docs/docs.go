// Package docs holds the documentation as files of the binary: pages, pictures and examples.
//
// README.md is the index: a page that it does not list is in no group. Package handbook reads the pages, and package guide
// serves them. Nothing of the product is imported here.
package docs

import (
	"embed"
	"io/fs"
)

// A running server shows the pictures of pages that a customer has. Those of the console, which its reader can open beside, those that no
// page here shows, dark forms, photographs and charts would make the binary 3 MB larger; pages show their descriptions instead.
//
//go:embed *.md */*.md examples
//go:embed pictures/activity.png pictures/budgets.png pictures/keys.png pictures/overview.png pictures/playground.png pictures/sessions.png
var files embed.FS

// Files returns the files of this folder.
func Files() fs.FS { return files }
