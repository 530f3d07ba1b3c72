// Package guard asks the questions that precede every write to a cluster.
//
// A [Scene] holds the facts that guards judge, read afresh each time. Each guard answers allow,
// hold or deny, with a reason. All guards are asked, so that every reason is on record. The
// strictest answer counts. A guard without an answer denies, and so does a guard whose reads
// failed.
//
// Guards only read the cluster. The guard verifiability also sends the write as a dry run, in the
// modes that may write.
package guard
