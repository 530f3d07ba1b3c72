// Package web is the incident pages: what happened, why Paramedic thinks so, what it would do about
// it, and the button for it.
//
// Pages are made on the server from what the bot remembers ([state.View]) and change nothing:
// approvals and every other write are posted to the API by the page's script. All tabs of a browser
// share one event stream. A page that is seen fetches its content again when something happened, at
// most once a second, without losing what the reader has opened, typed or scrolled to.
//
// The package promises that alert labels, chat text, metrics and names are shown as text, whatever
// they hold: everything goes through html/template, charts are made of escaped text and numbers,
// and a strict Content-Security-Policy allows no inline script, no inline style and nothing from
// elsewhere. Where [Config.Authenticate] is set, nothing but the login page and the static files is
// shown to somebody who is not known.
package web
