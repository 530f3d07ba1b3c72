package webhook

import "paramedic/webhook/httpio"

// OpenAPI is the description that the server serves.
var OpenAPI = openAPI

// Routes returns the server's handlers by pattern.
func (s *Server) Routes() map[string]httpio.Handler { return s.routes() }
