// Package browser proves the incident pages in a real browser: the bot runs its demo, Chromium
// opens the pages, and what a person would see and click is what the tests look at.
package browser
