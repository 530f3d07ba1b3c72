// Package tune computes safe engine settings from a model and its GPUs, or from what live engines
// export. It is arithmetic: it reads model configurations, and asks no engine anything.
package tune
