package digest

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/news/feed"
)

// advertisement is the verdict on an item that calls itself one.
const advertisement = "advertisement"

// How a digest treats a kind of items.
const (
	dropKind   = "drop"   // they are not posted
	lowKind    = "low"    // they count little; the usual treatment
	normalKind = "normal" // they count as any other item
)

// Kinds of items that are seldom news, as digests.*.kinds names them.
const (
	kindOffer    = "offers"
	kindLive     = "live"
	kindFix      = "corrections"
	kindLinks    = "links"
	kindTrial    = "prereleases"
	kindShort    = "shorts"
	kindTalk     = "discussion"
	kindGreeting = "greetings"
	kindRoutine  = "routine"
)

// itemKind recognizes a kind of items. The first that fits counts.
type itemKind struct {
	key       string
	one, many string
	is        func(i *item) bool
}

// itemKinds are recognized by structure, and by what publishers call them in a few languages.
var itemKinds = []itemKind{
	{kindFix, "correction", "corrections", func(i *item) bool { return fixTitle().MatchString(i.label()) }},
	{kindShort, "short video", "short videos", isShortVideo},
	{kindLive, "live blog", "live blogs", func(i *item) bool {
		return liveTitle().MatchString(i.label()) || livePath().MatchString(i.path())
	}},
	{kindOffer, "offer", "offers", func(i *item) bool {
		body := i.feedWords()
		return offerTitle().MatchString(i.label()) || len(strings.Fields(body)) <= greetingText && offerTitle().MatchString(body)
	}},
	{kindLinks, "list of links", "lists of links", func(i *item) bool {
		return roundupTitle().MatchString(i.label()) || isLinkList(i.Content)
	}},
	{kindTrial, "prerelease", "prereleases", func(i *item) bool { return trialTitle().MatchString(i.label()) }},
	{kindTalk, "thread", "threads", func(i *item) bool {
		return talkTitle().MatchString(i.label()) || talkPath().MatchString(i.path())
	}},
	{kindRoutine, "routine item", "routine items", func(i *item) bool { return routineTitle().MatchString(i.label()) }},
	{kindGreeting, "greeting", "greetings", isGreeting},
}

// KindKeys returns the names of the kinds of items that a digest can treat in its own way.
func KindKeys() []string {
	var keys []string
	for _, k := range itemKinds {
		keys = append(keys, k.key)
	}
	slices.Sort(keys)
	return keys
}

// checkKinds returns an error if a plan treats a kind in a way that is not known.
func checkKinds(kinds map[string]string) error {
	for key, how := range kinds {
		switch {
		case !slices.Contains(KindKeys(), key):
			return fmt.Errorf("kinds: %.40q is not known; want one of %s", key, strings.Join(KindKeys(), ", "))
		case !slices.Contains([]string{dropKind, lowKind, normalKind}, how):
			return fmt.Errorf("kinds.%s: %.40q is not known; want drop, low or normal", key, how)
		}
	}
	return nil
}

// The words by which publishers mark what somebody paid for. Words that are also subjects of news, such as Werbung or
// promoted, count in brackets alone.
const (
	paidLabels = `sponsored(?: (?:post|content|story|feature))?|advertisement|advertorial|` +
		`paid (?:post|content|partnership)` +
		`|partner content|anzeige|gesponsert|publicité|contenu sponsorisé|publirreportaje|contenido patrocinado` +
		`|annonsørinnhold|annonsinnehåll|sponsrat|contenuto sponsorizzato`
	bracketLabels = paidLabels + `|ad|werbung|promoted|publicidad|annonse|annons|reklame|pubblicità|реклама|広告|广告`
	colonLabels   = paidLabels + `|annonse|annons|reklame|publicidad|реклама`
)

var (
	advertTitle = text.Pattern(`(?i)^(?:[\[(](` + bracketLabels + `)[\])]|(` + colonLabels +
		`)(?: by [^:]{2,40})?\s*[:|–—])` +
		`|[\[(](` + bracketLabels + `)[\])]$|[|–—-] (` + paidLabels + `)$`)
	advertTopic = text.Pattern(`(?i)^(` + paidLabels + `)$`)

	// Offers name a discount, a price or a code to get one. "Save 40 % of the energy" is news.
	offerTitle = text.Pattern(`(?i)\bsave (?:up to )?(?:\d+ ?%|[$€£] ?\d+)` +
		`(?: (?:on|off|now|today|with|when|this)\b|[!:.,]|$)` +
		`|^\W*[-–−] ?\d+ ?%|\b\d+ ?% (?:off|rabatt|sconto|korting|de (?:réduction|remise|descuento))\b` +
		`|\b(?:promo|coupon|discount|voucher) codes?\b|\b(?:gutschein|rabatt)(?:codes?|kode)\b` +
		`|\b(?:today's|best|early|last-minute)[\w\s-]{0,30} deals\b|\b(?:black friday|cyber monday|prime day)\b.*\bdeals?\b` +
		`|\bdeals? of the (?:day|week)\b|\b(?:angebot|schnäppchen) des tages\b|\bdagens tilbud\b|\boffre du jour\b` +
		`|\boferta del día\b|\b(?:flash|clearance|closing-down) sale\b|\bbuy (?:one|two|\d),? get\b|\bfree shipping\b` +
		`|\b(?:now|only|just|for|from|nur|ab|für|nå|kun|fra|seulement|solo|desde) (?:[$€£] ?\d+[\d.,]*|\d+[\d.,]* ?(?:€|kr\b))` +
		`.*\b(?:was|reg|instead of|statt|før|normally|rrp)\b|\(m/[wf]/[dx]\)|\b(?:is|we're|we are) hiring\b`)

	roundupTitle = text.Pattern(`(?i)\b(?:daily|weekly|monthly|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day)(?:'s)? ` +
		`(?:links|reading(?: list)?|link dump|(?:news |link )?round-?up|linkfest)\b` +
		`|\b(?:news|link) round-?up\b|\blink ?dump\b|^links(?: (?:for|of) |:? ?#?\d|$)|\bissue #?\d+ of\b` +
		`|^this week in [\w .-]{2,30}(?: #?\d+)?$|\bnewsletter #\d+` +
		`|\b(?:linktipps|linkliste|lenkesamling|ukens lenker|fundstücke der woche|wochenrückblick|revue de presse)\b`)

	trialTitle = text.Pattern(`(?i)\d[-.~+ ]?(?:alpha|beta|rc|pre|preview|dev|snapshot|nightly|canary)[-. ]?\d*\b` +
		`|\b(?:alpha|beta|rc)[-. ]?\d+\b|\brelease candidate\b|^\W*(?:nightly|snapshot|canary|edge|unstable)\b` +
		`|\bnightly build`)

	fixTitle = text.Pattern(`(?i)^\W*(?:corrections?|clarifications?|errat(?:a|um)|retraction|rettels\w*|presisering` +
		`|korrektur|berichtigung|richtigstellung|rectificati\w+|correctifs?|correcci[oó]n(?:es)?|rettifica|rättelse` +
		`|oikaisu)(?:\s*[:|–—.-]| (?:to|of|on|zu|zum|til|à|de|a)\b|$)`)

	liveTitle = text.Pattern(`(?i)^\W*(?:live|direkte|en direct|en vivo|in diretta)\b\s*[:|–—-]` +
		`|\blive[- ]?(?:blog|ticker|updates?|coverage|stream)|\bas it happened\b|\bminute by minute\b|\bminutt for minutt\b` +
		`|\bfollow (?:the latest|live|our live)|[|:–—-] live$`)
	livePath = text.Pattern(`(?i)/(?:live|liveblog|live-?ticker|direkte|direct|en-vivo)/`)

	talkTitle = text.Pattern(`(?i)^\W*(?:help|question|ask \w+|frage|hilfe|hjelp|spørsmål|pregunta|ayuda|aide|domanda` +
		`|discussion|diskussion|rant|poll|meme)\b ?[:\])|]` +
		`|\b(?:daily|weekly|monthly|open|mega|free talk|off-?topic|meme)[- ]?(?:discussion )?(?:thread|friday|monday)\b` +
		`|^open thread\b|^(?:(?:does |has |is )?any(?:one|body)\b|how (?:do|can|would|should) (?:i|you|we)\b` +
		`|what(?:'s| is| are) your\b|why (?:does|do|is) my\b|wie (?:kann|mache|bekomme) ich\b|kann (?:mir )?jemand\b` +
		`|hvordan (?:kan|gjør|får) (?:jeg|dere|du)\b|noen som\b|comment puis-je\b|alguien\b)`)
	talkPath = text.Pattern(`(?i)/comments/|/r/[^/]+/|/t/[^/]+/\d|/item\?id=|/forums?/|/threads?[/-]|viewtopic`)

	routineTitle = text.Pattern(`(?i)\b(?:horoscopes?|horoskop\w*|quiz|crossword|kreuzworträtsel|kryssord|sudoku|wordle` +
		`|lottery (?:numbers|results)|lottozahlen|lottotall|\pL+ of the (?:day|week|month)` +
		`|foto des tages|ukens bilde|dagens (?:bilde|tips|rett)|on this day|tv (?:guide|tips)|rezept|recette|receta|oppskrift` +
		`|weather (?:forecast|for|today|this)|wetter(?:bericht|vorhersage|aussichten)|værmelding\w*|værvarsel\w*|météo` +
		`|blir (?:det|været)|das wetter)\b`)

	// opinionTitle and opinionTopic match comments, which do not report what has happened.
	opinionTitle = text.Pattern(`(?i)^\W*(?:opinion|op-ed|comment|commentary|editorial|column|leader|analysis|essay|review` +
		`|kommentar|meinung|leitartikel|kolumne|leder|lederartikkel|debatt|kronikk|analyse|tribune|édito\w*|opini[oó]n` +
		`|editoriale?|commento)\b\s*[:|–—]|[|–—] (?:opinion|comment|kommentar|meinung)$`)
	opinionTopic = text.Pattern(`(?i)^(?:opinions?|op-ed|comment|editorials?|columns?|kommentare?|meinung|debatt|kronikk` +
		`|tribunes?)$`)

	greetingWords = text.Pattern(`(?i)^\W*(?:good (?:morning|evening|night|day)|happy \w+|merry \w+|guten? (?:morgen|abend|tag|nacht)` +
		`|schönen? \w+|frohe[sn]? \w+|god (?:morgen|kveld|natt|helg|jul|dag|morgon)|ha en \w+|bonjour|bonsoir|bonne \w+` +
		`|buen(?:os|as) \w+|feliz \w+|buon\w+|hello|hallo|hei|hi|hola|ciao|salut|thank you|thanks|takk|danke|merci` +
		`|gracias|welcome)\b`)
	hashtag    = text.Pattern(`#\pL[\pL\pN_]*`)
	shortsTag  = text.Pattern(`(?i)#(?:shorts?|reels?|tiktok)\b`)
	shortsPath = text.Pattern(`(?i)/(?:shorts|reels?)/`)
)

// minListLinks and minLinkShare are how many links an item has, and which part of its text they make up, if it is a
// list of links.
const (
	minListLinks = 8
	minLinkShare = 0.5
)

// advertLabel returns the words by which an item calls itself an advertisement, or "".
func advertLabel(i *item) string {
	for n, label := range advertTitle().FindStringSubmatch(strings.TrimSpace(i.Heading())) {
		if n > 0 && label != "" {
			return label
		}
	}
	for _, topic := range i.Categories {
		if advertTopic().MatchString(strings.TrimSpace(topic)) {
			return topic
		}
	}
	return ""
}

// findKind returns the kind of an item that is seldom news, or "". Kinds that the digest treats as any other are none.
func (d spec) findKind(i *item) string {
	for _, k := range itemKinds {
		if d.Kinds[k.key] != normalKind && k.is(i) {
			return k.key
		}
	}
	return ""
}

// minKindItems and maxKindItems bound the items by which it is found out what a digest is made of.
const (
	minKindItems = 5
	maxKindItems = 500
)

// usualKinds returns how a digest treats kinds of items, where one that makes up most of its feeds counts as any other:
// somebody who follows forums alone wants their threads.
func (e *edition) usualKinds(d spec) map[string]string {
	counts := map[string]int{}
	some := e.items[:min(len(e.items), maxKindItems)]
	for _, i := range some {
		counts[d.findKind(i)]++
	}
	for kind, n := range counts {
		if kind != "" && d.Kinds[kind] == "" && n >= minKindItems && 2*n > len(some) {
			d.Kinds = maps.Clone(d.Kinds)
			if d.Kinds == nil {
				d.Kinds = map[string]string{}
			}
			d.Kinds[kind] = normalKind
		}
	}
	return d.Kinds
}

// countKind returns a number of items of a kind in words.
func countKind(kind string, n int) string {
	for _, k := range itemKinds {
		if k.key == kind && n == 1 {
			return "1 " + k.one
		} else if k.key == kind {
			return fmt.Sprintf("%d %s", n, k.many)
		}
	}
	return pluralize(n, "other")
}

// isOpinion reports whether an item comments on what others report.
func (i *item) isOpinion() bool {
	return opinionTitle().MatchString(i.label()) ||
		slices.ContainsFunc(i.Categories, func(c string) bool { return opinionTopic().MatchString(strings.TrimSpace(c)) })
}

// path returns the path of an item's address, with its query.
func (i *item) path() string {
	u, err := url.Parse(i.Link)
	if err != nil {
		return ""
	}
	return u.RequestURI()
}

// isShortVideo reports whether an item is a short video, as its address or its tags say.
func isShortVideo(i *item) bool {
	title := i.label()
	return shortsTag().MatchString(title) || shortsPath().MatchString(i.path()) || len(hashtag().FindAllString(title, 3)) == 3
}

// Limits of items that say next to nothing, in words.
const (
	greetingTitle = 6
	greetingText  = 20
	emptyTitle    = 4
	emptyText     = 12
	emptyLength   = 20 // characters of a title of one word
)

// isGreeting reports whether an item says hardly more than hello: a few words without any number.
func isGreeting(i *item) bool {
	title, body := i.Heading(), i.feedWords()
	words := len(strings.Fields(title))
	if title == "" {
		title, words = body, 0
	}
	said := len(strings.Fields(body))
	switch {
	case strings.ContainsFunc(title, unicode.IsDigit) && words > 1:
		return false
	case greetingWords().MatchString(title):
		return words <= greetingTitle && said <= greetingText
	case words > emptyTitle || said > emptyText:
		return false
	}
	// What is left without a title, as an exclamation or as one word: "nightly", "Wow!", "☀️".
	end, _ := utf8.DecodeLastRuneInString(title)
	return words <= 1 && utf8.RuneCountInString(title) <= emptyLength || !unicode.IsLetter(end) && !unicode.IsDigit(end) && !unicode.IsPunct(end) || end == '!'
}

// anchor matches a link of the markup that package feed has sanitized.
var anchor = text.Pattern(`(?s)<a\b[^>]*>(.*?)</a>`)

// isLinkList reports whether most of a text is links.
func isLinkList(markup string) bool {
	if strings.Count(markup, "<a") < minListLinks {
		return false
	}
	inLinks := 0
	for _, link := range anchor().FindAllStringSubmatch(markup, -1) {
		inLinks += utf8.RuneCountInString(feed.PlainText(link[1]))
	}
	return float64(inLinks) >= minLinkShare*float64(utf8.RuneCountInString(feed.PlainText(markup)))
}

// Severities of an advisory, as its publisher names them.
var severityWords = []struct {
	name  string
	worth float64
	match func() *regexp.Regexp
}{
	{"critical", 3, text.Pattern(`(?i)\b(?:critical|kritisk\w*|kritisch\w*|critique|crítica|critica|zero-?day|actively exploited` +
		`|CVSS\D{0,14}(?:9\.\d|10(?:\.0)?))\b`)},
	{"high", 0.5, text.Pattern(`(?i)\b(?:high(?:[ -]severity)?|hoch|høy|hög|élevée?|alta|elevata|severe|CVSS\D{0,14}[78]\.\d)\b`)},
	{"medium", -1, text.Pattern(`(?i)\b(?:medium|moderate|mittel|middels|moyenne?|media|CVSS\D{0,14}[4-6]\.\d)\b`)},
	{"low", -2, text.Pattern(`(?i)\b(?:low(?:[ -]severity)?|niedrig|gering|lav|låg|faible|baja|bassa|CVSS\D{0,14}[0-3]\.\d)\b`)},
}

// advisoryWord matches what an advisory has and other news seldom does.
var advisoryWord = text.Pattern(`(?i)\bCVE-\d{4}-\d+|\bGHSA(?:-\w{4}){3}\b|\bCVSS\b|\bseverity\b|\badvisor(?:y|ies)\b` +
	`|\bvulnerab\w+|\bschwachstelle\w*|\bsårbarhet\w*|\bvulnérabilit\w+|\bvulnerabilidad\w*`)

// severity returns how severe an advisory calls what it warns of, with what that adds to its worth. The name is empty
// for other items.
func (i *item) severity() (name string, worth float64) {
	title, lead := i.Heading(), shorten(i.feedWords(), severityText)
	if !advisoryWord().MatchString(title + " " + lead) {
		return "", 0
	}
	for _, part := range []string{title, lead} { // the title counts before what is said of others
		for _, s := range severityWords {
			if s.match().MatchString(part) {
				return s.name, s.worth
			}
		}
	}
	return "", 0
}

// severityText bounds the text in which the severity of an advisory is looked for, in characters.
const severityText = 400
