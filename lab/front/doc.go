// Package front simulates the services in front of a pool's workers, with their pages: the gateway,
// which is llm-d's endpoint picker or Dynamo's frontend, its router, and the chat service of the
// clients, which looks at the answers.
package front
