//go:build !linux

package main

// releasePages does nothing here: other systems take unused pages back by themselves, or offer no way.
func releasePages() {}
