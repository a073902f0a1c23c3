// Package failpoint names the points at which tests crash the daemon. If the program is built with the tag failpoint,
// the process kills itself at one of them; otherwise they cost nothing. It imports no package of this module.
package failpoint

// The places, in the order in which a message passes them.
const (
	Received     = "received"      // a message has arrived and is not stored
	Stored       = "stored"        // it is stored, and its platform has not been told yet
	Acked        = "acked"         // its platform has been told
	ModelCalled  = "model-called"  // a model has answered; the answer is not stored
	ToolStarted  = "tool-started"  // a call is stored and about to run
	ToolDone     = "tool-done"     // the call has run; its result is not stored
	PostRecorded = "post-recorded" // an answer is stored and not sent
	PostSent     = "post-sent"     // a platform has accepted a post; that is not stored
)

// All returns all places.
func All() []string {
	return []string{Received, Stored, Acked, ModelCalled, ToolStarted, ToolDone, PostRecorded, PostSent}
}
