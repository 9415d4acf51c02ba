// Package trial says how much tests try, and with which chance.
//
// The usual run takes the same seeds each time, so that a change is judged by what it changes and not by luck. A soak (MILLRACE_SOAK=1, as
// `make soak` sets it) takes seeds that nobody has tried. MILLRACE_EFFORT scales rounds, in percent; MILLRACE_SEED runs the seed again that
// a failed test has printed.
package trial
