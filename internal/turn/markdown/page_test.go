package markdown_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"ravenbot/internal/turn/markdown"
)

func TestHTML_HighlightsCodeWithoutChangingIt(t *testing.T) {
	tag := regexp.MustCompile(`<[^>]*>`)
	for name, c := range map[string]struct{ code, want string }{
		"go":     {"// a <b>\nfunc f() { return \"x // y\" + `z` } // 0x1F", `<span class="comment">// a &lt;b&gt;</span>`},
		"python": {"def f(x):\n    '''two\n    # lines'''\n    return x # why", "<span class=\"string\">&#39;&#39;&#39;two\n    # lines&#39;&#39;&#39;</span>"},
		"rust":   {"fn f<'a>(x: &'a str) -> &'a str { x }", `<span class="keyword">fn</span> f&lt;&#39;a&gt;`},
		"bash":   {"echo ${#a} \"$b\" # done\nif true; then exit 1; fi", `<span class="comment"> # done</span>`},
		"SQL":    {"SELECT 1 -- one", `<span class="keyword">SELECT</span> <span class="number">1</span>`},
		"diff":   {"-old\n+new", `<span class="comment">-old</span>`},
		"tsx":    {"const a = `x ${b}`; /* open", `<span class="keyword">const</span>`},
		"cobol":  {"MOVE <A> TO B.", "MOVE &lt;A&gt; TO B."},
	} {
		page := markdown.HTML("```" + name + "\n" + c.code + "\n```")
		if !strings.HasPrefix(page, `<pre data-language="`+name+`"><code>`) || !strings.Contains(page, c.want) {
			t.Errorf("%s lacks %q:\n%s", name, c.want, page)
		}
		if plain := html.UnescapeString(tag.ReplaceAllString(page, "")); strings.TrimSpace(plain) != c.code {
			t.Errorf("%s became\n%s", name, plain)
		}
	}
	if page := markdown.HTML("```x\"><script>\ny\n```"); strings.Contains(page, "<script") {
		t.Errorf("the name of a language is markup: %s", page)
	}
}

func TestHTML_KeepsSourceOfFormulas(t *testing.T) {
	for src, want := range map[string]string{
		`It is $\int_0^1 e^{-x^2}\,dx$.`:                        `<p>It is <code class="math">$\int_0^1 e^{-x^2}\,dx$</code>.</p>`,
		`So \(a_i * b_i * c\) and $x$ hold.`:                    `<p>So <code class="math">\(a_i * b_i * c\)</code> and <code class="math">$x$</code> hold.</p>`,
		"So\n\\[\na_1 \\\\\n- b_1\n\n= 3\\,c\n\\]\nand *so* on": "<p>So</p>\n<pre><code>\\[\na_1 \\\\\n- b_1\n\n= 3\\,c\n\\]\n</code></pre>\n<p>and <em>so</em> on</p>",
		"$$ a_1 +\nb_1 $$\n\nend":                               "<pre><code>$$ a_1 +\nb_1 $$\n</code></pre>\n<p>end</p>",
		"$$x_1 + x_2$$":                                         `<p><code class="math">$$x_1 + x_2$$</code></p>`,
		"It costs $5, or $6 000 with *tax*, or 7$.":             "<p>It costs $5, or $6 000 with <em>tax</em>, or 7$.</p>",
		"Between $5 and $6 you get *more*.":                     "<p>Between $5 and $6 you get <em>more</em>.</p>",
		"Set `$a_b$` and $HOME, then \\$x_1$ and \\[no end":     "<p>Set <code>$a_b$</code> and $HOME, then $x_1$ and [no end</p>",
		"$$\nis what *they* want":                               "<p>$$<br>\nis what <em>they</em> want</p>",
		"> $$\n> a_1 b_1\n> $$\n\nafter":                        "<blockquote>\n<pre><code>$$\na_1 b_1\n$$\n</code></pre>\n</blockquote>\n<p>after</p>",
	} {
		if got := strings.TrimSpace(markdown.HTML(src)); got != want {
			t.Errorf("%q became\n%s\nwant\n%s", src, got, want)
		}
	}
}
