// Package config reads paramedic.yaml: its types, defaults and validation, and the settings of the
// other packages that follow from it. It reads the files that the configuration names, and connects
// to nothing.
package config
