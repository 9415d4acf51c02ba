// Package cmd is the command line: flags, wiring and signals, and no logic. A binary is a list of plugins:
//
//	func main() { cmd.Main(append(cmd.Plugins(), acme.Source)) }
//
// The tests here also keep the arrows between the packages of the whole module pointing one way.
package cmd
