// Package tune computes safe engine settings from a model and its GPUs, or from the metrics of live
// engines. It reads model configurations, and queries nothing.
package tune
