package playbooks

// machineCauses lists the causes in machines, their GPUs and their memory.
var machineCauses = []string{"gpu_throttle", "node_failure", "oom_killed", "cuda_oom", "gpu_memory_leak"}
