// Package guard holds the questions that are asked before every write to a cluster.
//
// A [Scene] holds what they are answered from, read afresh each time. Each guard answers allow, hold
// or deny, with a reason. All guards are asked, so that every reason is on record. The strictest
// answer holds. A guard that has no answer denies, and so does a guard whose reads failed.
//
// Guards only read the cluster. Verifiability also sends the write as a dry run, in the modes that
// may write.
package guard
