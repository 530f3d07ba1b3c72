package main

import (
	"fmt"

	"paramedic/playbooks"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

const unknownWhat = "The evidence does not decide: there is too little of it, or two causes are about as likely. An honest unknown with " +
	"its evidence beats a wrong name."

// An unknownVerdict replaces a cause if none is named. It is weighed like a cause at 0 dB without
// evidence.
type unknownVerdict struct {
	*catalog.Cause
	Threshold int `json:"threshold"`
	Margin    int `json:"margin"`
}

// unknown returns the verdict with the advice of its playbook.
func unknown() (unknownVerdict, error) {
	library, err := playbooks.Load("")
	if err != nil {
		return unknownVerdict{}, err
	}
	pb, _ := library.Get(string(state.Unknown)) // it is built in
	c := &catalog.Cause{ID: state.Unknown, Title: pb.Title, Playbook: pb.ID, What: unknownWhat, Explains: map[state.Symptom]float64{},
		Evidence: []*catalog.Evidence{}, Avoid: pb.Worse}
	for _, step := range pb.FirstAid {
		c.Do = append(c.Do, step.String())
	}
	return unknownVerdict{Cause: c, Threshold: diagnose.Threshold, Margin: diagnose.Margin}, nil
}

// showUnknown prints the explanation of the verdict.
func (c *cli) showUnknown(catalog *catalog.Catalog) error {
	u, err := unknown()
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.json(u)
	}
	p := rulePage{out: c.out, cause: u.Cause, catalog: catalog}
	fmt.Fprintf(p.out, "%s: the verdict where no cause stands out (built in; playbook %s)\n\n", u.ID, u.Playbook)
	p.lines(0, "", u.What+" Nothing is done to the fleet.")
	fmt.Fprintln(p.out, "\nGiven where")
	p.lines(4, "  -", fmt.Sprintf("the best cause stays below %+d dB, also for want of evidence: what could not be measured weighs "+
		"nothing, and is listed as missing;", u.Threshold))
	p.lines(4, "  -", fmt.Sprintf("or it is less than %d dB ahead of the next cause that is not one of its consequences. 10 dB are odds "+
		"of ten to one.", u.Margin))
	fmt.Fprintln(p.out)
	p.lines(0, "", "Its confidence is 1 less the best cause's. The alternatives are the causes that were weighed, each with what would "+
		"have named it. "+
		"An incident that has no verdict yet is unknown, too.")
	p.advice()
	fmt.Fprintf(p.out, "\n`paramedic playbooks show %s` has the checks, and what to look at by hand.\n", u.Playbook)
	return nil
}
