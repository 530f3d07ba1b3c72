// Package drill holds the lab's ready-made scenarios: a fleet, the faults of one or two causes or a
// decoy, and what happens, for people. It also moves a scenario to another engine, size, time of
// day or traffic.
package drill
