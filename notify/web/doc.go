// Package web serves the incident pages: what happened, why Paramedic believes so, which first aid
// it would apply, and the button for it.
//
// The server makes the pages from the bot's state ([state.View]). Pages change nothing: the page's
// script sends approvals and every other write to the API. All tabs of a browser share one event
// stream. A visible page fetches its content again after an event, at most once a second, and keeps
// what the reader has opened, typed or scrolled to.
//
// Alert labels, chat text, metrics and names are shown as plain text. All of them go through
// html/template, and charts consist of escaped text and numbers. A strict Content-Security-Policy
// allows no inline script, no inline style and no other site. If [Config.Authenticate] is set, an
// unknown reader gets only the login page and the static files.
package web
