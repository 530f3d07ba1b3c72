package main

import (
	"fmt"

	"paramedic/playbooks"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

const unknownWhat = "The evidence does not decide between the causes, or there is too little of it. An unknown with its " +
	"evidence is better " +
	"than a wrong cause."

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
	fmt.Fprintf(p.out, "%s: the verdict if no cause stands out (built in; playbook %s)\n\n", u.ID, u.Playbook)
	p.lines(0, "", u.What+" The bot changes nothing in the fleet.")
	fmt.Fprintln(p.out, "\nThe bot returns it if")
	p.lines(4, "  -", fmt.Sprintf("the best cause stays below %+d dB. Missing evidence weighs nothing, and the incident lists "+
		"it;", u.Threshold))
	p.lines(4, "  -", fmt.Sprintf("or the best cause is less than %d dB ahead of the next one, if that is not its consequence. 10 dB "+
		"multiply the odds by ten.", u.Margin))
	fmt.Fprintln(p.out)
	p.lines(0, "", "Its confidence is 1 minus that of the best cause. The incident lists the other candidates, each with what would "+
		"make it win. An incident without a verdict is also unknown.")
	p.advice()
	fmt.Fprintf(p.out, "\n`paramedic playbooks show %s` prints the checks and the steps by hand.\n", u.Playbook)
	return nil
}
