// Holdout measures the diagnosis on fleets that the rules were not written for.
//
// Each run draws a value for every [dimension]: how targets are labelled, what is exported, which
// alert rules are loaded, how strong the fault is and how it begins. One fault or decoy of the lab
// is played on that fleet. Half of the runs read evidence through PromQL, with Prometheus's own
// engine over the scraped samples; the others read the pages.
//
//	go run . -runs 540 -out runs.jsonl   # play and keep the results
//	go run . -table runs.jsonl           # print the tables of results that are kept
//	go run . again -runs runs.jsonl      # give their verdicts again, with today's catalogue
//	go run . fit -runs runs.jsonl        # fit the catalogue's weights to them
//	go run . leave -dir DIR              # fit without a convention, and play it; each in turn
//
// It is a module of its own, because the bot does not need Prometheus's engine.
package main
