// Package archtest holds the shape of the project as tests: who may import whom, what every package
// says about itself, which names mean nothing, what no file may mention, and that the headings and
// files which comments and pages cite exist.
//
// The rules read the source; each failure says what to do. A rule that stands in the way of better
// code is changed here, in the same commit, and in the architecture page. What the code does is not
// tested here.
package archtest
