// Package transfer is `paramedic state export` and `paramedic state import`: it moves a store with
// all of its inputs and records, for instance from the embedded JetStream to an external NATS
// cluster.
//
// An export reads a store that no bot uses, and changes nothing of it. An import writes nothing
// before it has read the whole file, refuses a store that is not empty, and reads the filled store
// again. A bot can open the store only if it has what the file has.
package transfer
