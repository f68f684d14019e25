//go:build race

package main

// raced reports whether the program under test was built with the race detector.
const raced = true
