package markdown

import "ravenbot/internal/text"

// mentions matches everything that Slack might treat as a mention of people.
var mentions = text.Pattern(`(<)([!@#])|(@)(channel|here|everyone)\b`)

// Slack returns Markdown for Slack's markdown blocks and text in which mentions notify nobody. An invisible space
// breaks them, since an escape would be visible in code.
func Slack(src string) string {
	return mentions().ReplaceAllString(src, "$1$3\u200b$2$4")
}
