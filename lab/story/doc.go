// Package story holds the ways in which the faults of a fleet begin and show.
//
// Each cause has several stories. They differ in what happens, or in what the fleet's metrics show
// of it, and not only in how much. The first story of a fault, and a few more, are the lab's own.
// [lab.Plot]s tell the others. Seeds below 100 play the first story, and from 100 on the seed draws
// one.
//
// A story is a mechanism, and the symptoms follow. It sets what is wrong with a worker, a GPU, the
// gateway or the traffic, and never a metric.
package story
