package service

// Version is set by release builds (-ldflags -X paramedic/cmd/paramedic/service.Version=…).
var Version = "devel"
