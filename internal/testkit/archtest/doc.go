// Package archtest checks the structure of the project with tests: who may import whom, what every
// package says about itself, which names mean nothing, what no file may mention, and that the headings
// and files that comments and pages cite exist.
//
// The rules read the source, and each failure says what to do. If a rule stands in the way of better
// code, change it here, in the same commit, and in docs/architecture.md. What the code does is not
// tested here.
package archtest
