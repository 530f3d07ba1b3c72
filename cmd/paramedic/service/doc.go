// Package service is the bot that one configuration makes: its wiring, its HTTP handler and TLS, the
// reload of a changed configuration, the fleet's health, and the bot's own metrics.
package service
