// Package service wires the bot for one configuration: its HTTP handler and TLS, the reload of a
// changed configuration, the fleet's health, and the bot's own metrics.
package service
