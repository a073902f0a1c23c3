package markdown

import "regexp"

// mentions is whatever Slack might take for a call to people.
var mentions = regexp.MustCompile(`(<)([!@#])|(@)(channel|here|everyone)\b`)

// Slack makes Markdown harmless for Slack's markdown blocks and text: forms that
// would call people are shown as they are and call nobody. An invisible space
// does that in code too, where an escape would be shown.
func Slack(src string) string {
	return mentions.ReplaceAllString(src, "$1$3\u200b$2$4")
}
