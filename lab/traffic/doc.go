// Package traffic simulates the clients of a pool: when their requests come, how long they are,
// what they have in common, and how clients cancel and retry.
//
// Arrivals are a Poisson process, or a recorded trace:
//
//   - Azure's public dataset of LLM inference, 2023 (github.com/Azure/AzurePublicDataset).
//   - The conversation trace of github.com/kvcache-ai/Mooncake.
//
// Assumed, not measured: the clients' patience and retries. They set the load that a pool carries.
package traffic
