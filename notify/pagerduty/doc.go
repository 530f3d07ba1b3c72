// Package pagerduty pages people through PagerDuty's Events API v2, and writes the diagnosis into
// incidents that other tools opened.
//
// It promises:
//
//   - One page per incident: the incident's own ID is the deduplication key. One trigger is sent,
//     and none after a resolve, because PagerDuty would open a second incident. A trigger with an
//     unknown outcome may be repeated: PagerDuty folds it into the first.
//   - PagerDuty shows the incident's state: an acknowledgement and the end are sent on, except
//     those that came from PagerDuty.
//   - Texts are shortened to PagerDuty's limits: 1024 characters of summary, 512 KB of body, 2000
//     characters of a note. At most 120 events are sent per minute.
//   - One note per cause of an incident, in another tool's incident and in our own page. A note
//     bears our incident's ID and the cause, and is looked for before it is written. If the bot
//     cannot write notes, our own page's service gets a change event.
//   - A merged incident's page reports the incident that it was merged into, in a note, or in a
//     change event if the bot cannot write notes.
package pagerduty
