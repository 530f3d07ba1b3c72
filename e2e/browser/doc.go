// Package browser tests the incident pages in a real browser. The bot runs its demo, Chromium opens
// the pages, and the tests look and click as a person does.
package browser
