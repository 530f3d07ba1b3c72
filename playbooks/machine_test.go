package playbooks

// machineCauses are those that are in machines, their GPUs and their memory.
var machineCauses = []string{"gpu_throttle", "node_failure", "oom_killed", "cuda_oom", "gpu_memory_leak"}
