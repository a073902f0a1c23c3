// Package failpoint names the places at which a crash is tried: built with the
// tag failpoint the process kills itself at one of them, else a place costs
// nothing. It promises nothing beyond that and imports nothing of ours.
package failpoint

// The places, in the order in which a message comes by them.
const (
	Received     = "received"      // a message has arrived and is not stored
	Stored       = "stored"        // it is stored, and its platform not told so
	Acked        = "acked"         // its platform has been told
	ModelCalled  = "model-called"  // a model has answered, which is not on record
	ToolStarted  = "tool-started"  // a call is on record and about to run
	ToolDone     = "tool-done"     // it has run, which is not on record
	PostRecorded = "post-recorded" // an answer is on record and not sent
	PostSent     = "post-sent"     // a platform has taken a post, which is not on record
)

// All are the places.
func All() []string {
	return []string{Received, Stored, Acked, ModelCalled, ToolStarted, ToolDone, PostRecorded, PostSent}
}
