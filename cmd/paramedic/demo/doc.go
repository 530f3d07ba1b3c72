// Package demo runs the whole loop on one machine: a simulated fleet breaks, and the real bot finds
// out why and treats it. Nothing leaves the machine.
package demo
