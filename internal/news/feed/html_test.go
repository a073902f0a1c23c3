package feed

import (
	"net/url"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for fragment, want := range map[string]string{
		"plain":                                       "plain",
		"AT&amp;T &lt;b&gt; &quot;x&quot;":            `AT&T <b> "x"`,
		"1 < 2 & 3 > 2":                               "1 < 2 & 3 > 2",
		"<p>One</p><p>Two <b>bold</b>ly</p>":          "One\n\nTwo boldly",
		"a<br>b<br/>c":                                "a\nb\nc",
		"<ul><li>x</li><li>y</li></ul>":               "x\ny",
		" lots \n of\t<i> space </i> ":                "lots of space",
		"<script>evil()</script>ok<style>p{}</style>": "ok",
		"<td>1</td><td>2</td>":                        "1 2",
		"non\u00a0breaking &nbsp; space":              "non breaking space",
		"twice &amp;amp; escaped \u00a0\u00c2\u00a0 ": "twice & escaped \u00c2",
		"bad \xc2 bytes \xc2":                         "bad \xc2 bytes \xc2",
		"":                                            "",
	} {
		if got := PlainText(fragment); got != want {
			t.Errorf("Plain(%q) is %q, want %q", fragment, got, want)
		}
		if got := PlainText(fragment + "<b></b>"); got != want {
			t.Errorf("Plain(%q) is %q with markup at its end, want %q", fragment, got, want)
		}
	}
}

func TestSafeHTML(t *testing.T) {
	for fragment, want := range map[string]string{
		"no markup & no < tag":                              "no markup & no < tag",
		`<p class="x">It's "so" <b>&#38;</b></p>`:           `<p>It's "so" <b>&amp;</b></p>`,
		"<b>&#38; kept as written</b><br />":                "<b>&#38; kept as written</b><br />",
		`<a href="javascript:x()">y</a>`:                    "y",
		`<a href="https://a.example/" onclick="x">y</a>`:    `<a href="https://a.example/">y</a>`,
		`<img src=x onerror=alert(1)>`:                      `<img src="x">`,
		"<script>x</script><iframe src=y></iframe>z":        "z",
		`<a title="it's &quot;x&quot;" href="/r" id=1>y`:    `<a title="it&#39;s &#34;x&#34;" href="/r" id="1">y`,
		"<b>a</b><!-- <script>x</script> --><svg/onload=x>": "<b>a</b>",
	} {
		if got := sanitizeHTML(fragment); got != want {
			t.Errorf("SafeHTML(%q) is %q, want %q", fragment, got, want)
		}
	}
}

func TestAbsoluteMarkupKeepsTheRest(t *testing.T) {
	base, err := url.Parse("https://a.example/x/y")
	if err != nil {
		t.Fatal(err)
	}
	for markup, want := range map[string]string{
		`<A HREF='z'>q</A> & <img src=//b.example/i  alt>`: `<a href="https://a.example/x/z">q</A> & <img ` +
			`src="https://b.example/i" alt="">`,
		`<P Class=x>untouched<br/ > &nbsp;`:          `<P Class=x>untouched<br/ > &nbsp;`,
		`<a href="mailto:a@b">m</a><a href="">e</a>`: `<a href="mailto:a@b">m</a><a href="">e</a>`,
	} {
		if got := string(absoluteMarkup(base, []byte(markup))); got != want {
			t.Errorf("%q becomes %q, want %q", markup, got, want)
		}
	}
}

func FuzzSafeHTML(f *testing.F) {
	for _, seed := range []string{"<b>x</b>", "<a href=\"java\tscript:x\">", "<svg><style><img src=x onerror=y>", "a<b",
		"<p title=\"`\">", "<math><mtext><table>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, fragment string) {
		safe := sanitizeHTML(fragment)
		checkInert(t, "fragment", safe)
		if strings.Contains(PlainText(safe), "\n\n\n") {
			t.Errorf("plain text with holes: %q", PlainText(safe))
		}
	})
}
