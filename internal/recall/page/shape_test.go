package page_test

import (
	"strings"
	"testing"

	"ravenbot/internal/recall/page"
)

// article returns a page whose article has a part, and enough other text to be one.
func article(part string) string {
	filler := strings.Repeat("<p>Ravens live in the north of the world, and they know how to solve problems of many kinds.</p>", 6)
	return `<html><head><title>T</title></head><body><article>` + filler + part + `</article></body></html>`
}

// What a page shows by its shape is written as text: figures stay the figures that they are.
func TestRead_Shapes(t *testing.T) {
	for part, want := range map[string]string{
		`<p>10<sup>18</sup> neutrons and 5 km<sup>3</sup>, H<sub>2</sub>O</p>`:                                                                     "10¹⁸ neutrons and 5 km³, H₂O",
		`<p>e<sup>x</sup> on the 1<sup>st</sup> day</p>`:                                                                                           "e^x on the 1st day",
		`<p>It rains<sup><a href="#fn1">1</a></sup> here<sup>[2]</sup>.</p>`:                                                                       "It rains here.",
		`<p>is <math><mi>x</mi><mo>=</mo><mfrac><mn>1</mn><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mfrac></math></p>`:                          "is x=1/(a+b)",
		`<p>is <math><semantics><msup><mi>x</mi><mn>2</mn></msup><annotation encoding="application/x-tex">x^2</annotation></semantics></math></p>`: "is $x^2$",
		`<p>is <script type="math/tex">e^{i}</script></p>`:                                                                                         "is $e^{i}$",
		`<p><ruby>大<rt>おお</rt></ruby>阪</p>`:                                                                                                        "大阪",
		`<table><tr><th>A</th><th>B</th></tr><tr><td>x|y</td><td>2</td></tr></table>`:                                                              `| x\|y | 2 |`,
		`<table><tr><th>Year</th><th>Sum</th><th>N</th></tr><tr><td colspan="2">2026</td><td>7</td></tr></table>`:                                  "| 2026 |  | 7 |",
		`<table class="highlight"><tr><td class="gutter"><pre>1
2</pre></td><td class="code"><pre>a := 1
b := 2</pre></td></tr></table>`: "```\na := 1\nb := 2\n```",
	} {
		if got := page.Read([]byte(article(part)), "text/html; charset=utf-8", "").Text; !strings.Contains(got, want) {
			_, got, _ = strings.Cut(got, "of many kinds.\n\n"+part[:0])
			t.Errorf("%s: it lacks %q:\n%s", part, want, got)
		}
	}
}

// A question for consent is not read in the place of the article, whatever it does to the page; a page of nothing else is.
func TestRead_Consent_IsLeftOut(t *testing.T) {
	consent := strings.Repeat("<p>We and our 842 partners store and access cookies on your device to show advertisements.</p>", 12)
	short := `<p>The ferry to the lighthouse runs again, every hour from eight until six in the evening.</p>
		<p>Its new engine needs a third less fuel, the harbour office says, and it is less loud.</p>`
	for name, body := range map[string]string{
		"a banner":      `<article>` + short + `</article><div id="gdpr-consent" class="cookie-banner modal">` + consent + `</div>`,
		"a dialog":      `<main aria-hidden="true">` + short + `</main><div role="dialog">` + consent + `</div>`,
		"a modal":       `<div class="text">` + short + `</div><section aria-modal="true">` + consent + `</section>`,
		"nothing else":  `<div class="consent">` + consent + `</div>`,
		"its own topic": `<article class="post"><h1>Consent</h1>` + consent + `</article>`,
	} {
		got := page.Read([]byte("<html><body>"+body+"</body></html>"), "text/html", "").Text
		isAsked, hasText := strings.Contains(got, "partners"), strings.Contains(got, "ferry")
		if only := !strings.Contains(body, "ferry"); isAsked != only || hasText == only {
			t.Errorf("%s: %s", name, got)
		}
	}
}
