//go:build race

package broker

// underRace: pools drop what is put into them at random.
const underRace = true
