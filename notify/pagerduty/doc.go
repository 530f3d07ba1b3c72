// Package pagerduty pages people through PagerDuty's Events API v2, and writes the diagnosis into
// incidents that other tools opened.
//
// It promises:
//
//   - One page an incident: the incident's own ID is the deduplication key, one trigger is sent,
//     and none after a resolve, because PagerDuty would open a second incident. A trigger whose
//     outcome is not known may be repeated: PagerDuty folds it into the first.
//   - What happened here is seen there: an acknowledgement and the end are sent on, but for those
//     that came from PagerDuty.
//   - PagerDuty's limits are held by shortening: 1024 characters of summary, 512 KB of body, 2000
//     characters of a note, 120 events a minute.
//   - One note for each cause that an incident had, in another tool's incident and in our own page:
//     it bears our incident's ID and the cause, and is looked for before it is written. Where the
//     bot cannot write notes, our own page's service gets a change event.
//   - A merged incident's page says where its incident went: in a note, or where the bot cannot
//     write notes in a change event of its service.
package pagerduty
