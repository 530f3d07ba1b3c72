// Package machine simulates the machines of a fleet: their H100 GPUs with memory, telemetry, clock
// and Xids, what the kubelet reports, and dcgm-exporter's page.
//
// A GPU's power follows the work of its owner's engine, its temperature the power and the cooling,
// and its clock the temperature. The constants are those of an H100 SXM with 80 GB.
package machine
