//go:build race

package main

// raced says that the program under test was built with the race detector.
const raced = true
