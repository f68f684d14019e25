//go:build race

package redisledger

const raced = true
