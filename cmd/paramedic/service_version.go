package main

import ()

// version is set by release builds (-ldflags -X main.version=…).
var version = "devel"
