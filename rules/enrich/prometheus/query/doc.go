// Package query compiles signals into PromQL for one scope of a fleet, and finds the signals of the
// series in an answer.
//
// Fleets differ in their engines, in the names of their metrics, and in the labels of namespaces
// and pods. So a [Search] first asks for the engines of the scope. The answer gives a [Discovery],
// and this the [Filter] of the scope. [Compile] makes a [Member] for each source of a signal, and
// [Unions] joins members into few queries. Every series of a union's answer has a mark, by which
// [Union.Of] finds its members.
//
// The package sends no query. It knows neither a server nor a cache, and reads no clock.
package query
