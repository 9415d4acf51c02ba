// Command millrace is the whole of it in one binary.
package main

import (
	_ "time/tzdata" // zones of transforms and partitioners, also where the system has none

	"millrace/cmd"
)

func main() { cmd.Main(cmd.Plugins()) }
