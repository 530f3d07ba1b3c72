package playbooks

// demandCauses lists the causes in the requests of clients and their retries.
var demandCauses = []string{"traffic_surge", "retry_storm", "long_context_burst", "decode_saturation", "client_cancellations"}
