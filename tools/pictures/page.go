package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// page returns a hash of what a page consists of, given the files that it is drawn from: the texts in Go files, which
// for templates are their markup, and those rules of style sheets whose classes the markup names.
//
// It is made from the sources and not from a rendered page. What a page renders depends on the day, because the data
// does: a hash of it would differ from one day to the next, or would have to leave out so much that it missed changes. In
// the sources, code that is rearranged, comments and rules for other pages change nothing, while every word, element,
// class and colour of the page counts.
func page(root string, files []string) (string, error) {
	var texts []string
	var sheets []string
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		if filepath.Ext(name) == ".css" {
			sheets = append(sheets, string(content))
			continue
		}
		more, err := literals(name, content)
		if err != nil {
			return "", err
		}
		texts = append(texts, more...)
	}
	words := map[string]bool{}
	for _, text := range texts {
		for _, word := range wordPattern.FindAllString(text, -1) {
			words[word] = true
		}
	}
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%q\n", text)
	}
	for _, sheet := range sheets {
		for _, rule := range rules(commentPattern.ReplaceAllString(sheet, ""), words) {
			fmt.Fprintf(sum, "%s\n", rule)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

var (
	wordPattern    = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_-]*`)
	namePattern    = regexp.MustCompile(`[.#]([A-Za-z_][A-Za-z0-9_-]*)`)
	commentPattern = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// literals returns the texts in a Go file, without those of imports.
func literals(name string, content []byte) (texts []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text, err := strconv.Unquote(n.Value)
				if err == nil && !strings.HasSuffix(text, ".templ") { // where an error of a template would have been
					texts = append(texts, text)
				}
			}
		}
		return true
	})
	return texts, nil
}

// rules returns the rules of a style sheet that can apply to markup with these words, each on one line. Those inside an
// at-rule such as @media have it before them.
func rules(sheet string, words map[string]bool) (list []string) {
	for {
		open := strings.IndexByte(sheet, '{')
		if open < 0 {
			return list
		}
		head, rest := strings.TrimSpace(sheet[:open]), sheet[open+1:]
		body, after := block(rest)
		sheet = after
		switch {
		case strings.HasPrefix(head, "@media"), strings.HasPrefix(head, "@supports"):
			for _, inner := range rules(body, words) {
				list = append(list, oneLine(head)+" "+inner)
			}
		case applies(head, words):
			list = append(list, oneLine(head)+" {"+oneLine(body)+"}")
		}
	}
}

// block returns the text up to the brace that closes a block, and the text after it.
func block(text string) (body, after string) {
	depth := 1
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[:i], text[i+1:]
			}
		}
	}
	return text, ""
}

// applies reports whether one of the selectors names only classes and ids that there are.
func applies(selectors string, words map[string]bool) bool {
	for selector := range strings.SplitSeq(selectors, ",") {
		all := true
		for _, name := range namePattern.FindAllStringSubmatch(selector, -1) {
			all = all && words[name[1]]
		}
		if all {
			return true
		}
	}
	return false
}

func oneLine(text string) string { return string(bytes.Join(bytes.Fields([]byte(text)), []byte(" "))) }
