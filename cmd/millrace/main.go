// Command millrace is the whole of it in one binary.
package main

import "millrace/cmd"

func main() { cmd.Main(cmd.Plugins()) }
