package playbooks

// demandCauses are those that are in what clients ask for, and how they go on asking.
var demandCauses = []string{"traffic_surge", "retry_storm", "long_context_burst", "decode_saturation", "client_cancellations"}
