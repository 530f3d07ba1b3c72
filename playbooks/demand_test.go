package playbooks

// demandCauses are those that are in what clients ask for, and how they go on asking.
var demandCauses = []string{"client_cancellations"}
