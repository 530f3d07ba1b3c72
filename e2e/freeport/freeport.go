// Package freeport finds ports for servers that must know theirs before they start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find returns n free ports of 127.0.0.1. They are below the ephemeral range (Linux from 32768,
// others from 49152), so that no connection and no listener on port 0 takes one before the server
// for which it is meant.
func Find(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // only after all are found, so that none is found twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d ports of 127.0.0.1 are free", n)
}

// Address returns one such port with its host.
func Address() (string, error) {
	ports, err := Find(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), nil
}
