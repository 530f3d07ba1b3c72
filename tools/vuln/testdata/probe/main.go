// Command probe calls path.Base, which a test declares to be vulnerable.
package main

import (
	"fmt"
	"path"
)

func main() { fmt.Println(path.Base("/a/b")) }
