// Package engineflag finds the flag that limits an engine's running requests in the pod template of
// a workload, and edits it.
//
// It knows the forms that people write: command and args, one string or two, and scripts that a
// shell runs. It returns an error for every form that it cannot edit for certain.
package engineflag
