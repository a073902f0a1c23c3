package document_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/recall/document"
)

// archive returns a zip archive of parts.
func archive(t testing.TB, parts map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range parts {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	relationsHead = `<?xml version="1.0"?><Relationships ` +
		`xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	relationType = `Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/`
	nameSpaces   = `xmlns:w="urn:w" xmlns:a="urn:a" xmlns:p="urn:p" xmlns:mc="urn:mc" ` +
		`xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
)

// relations returns the part that says what another refers to: pairs of a kind and a target; ids are r1, r2, ….
func relations(pairs ...string) string {
	out := relationsHead
	for i := 0; i < len(pairs); i += 2 {
		mode := ""
		if strings.Contains(pairs[i+1], "://") {
			mode = ` TargetMode="External"`
		}
		out += fmt.Sprintf(`<Relationship Id="r%d" %s%s" Target="%s"%s/>`, i/2+1, relationType, pairs[i], pairs[i+1], mode)
	}
	return out + "</Relationships>"
}

func word(t testing.TB, body string) []byte {
	return archive(t, map[string]string{
		"_rels/.rels": relations("officeDocument", "word/document.xml"),
		"word/_rels/document.xml.rels": relations("styles", "styles.xml", "footnotes", "/word/footnotes.xml",
			"hyperlink", "https://example.org/x", "hyperlink", "file://etc"),
		"word/styles.xml": `<w:styles ` + nameSpaces +
			`><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>` +
			`<w:style w:styleId="L"><w:pPr><w:numPr/></w:pPr></w:style></w:styles>`,
		"word/footnotes.xml": `<w:footnotes ` + nameSpaces +
			`><w:footnote w:id="0" w:type="separator"><w:p><w:r><w:t>---</w:t></w:r></w:p></w:footnote>` +
			`<w:footnote w:id="2"><w:p><w:r><w:t>As Ada said.</w:t></w:r></w:p></w:footnote></w:footnotes>`,
		"word/document.xml": `<w:document ` + nameSpaces + `><w:body>` + body + `</w:body></w:document>`,
	})
}

const sharedStrings = `<si><t>item</t></si><si><r><t>bought </t></r><r><t>on</t></r><rPh><t>x</t></rPh></si>`

func sheets(t testing.TB, rows string) []byte { return sheetsSharing(t, sharedStrings, rows) }

// sheetsSharing returns an Excel file whose cells can refer to strings.
func sheetsSharing(t testing.TB, strings, rows string) []byte {
	return archive(t, map[string]string{
		"_rels/.rels": relations("officeDocument", "xl/workbook.xml"),
		"xl/_rels/workbook.xml.rels": relations("worksheet", "worksheets/sheet1.xml", "worksheet", "worksheets/sheet2.xml",
			"sharedStrings", "sharedStrings.xml", "styles", "styles.xml", "chartsheet", "chartsheets/c.xml"),
		"xl/workbook.xml": `<workbook ` + nameSpaces +
			`><sheets><sheet name="Prices" r:id="r1"/><sheet name="Drafts" r:id="r2" state="hidden"/>` +
			`<sheet name="Chart" r:id="r5"/></sheets></workbook>`,
		"xl/sharedStrings.xml": `<sst>` + strings + `</sst>`,
		"xl/styles.xml": `<styleSheet><numFmts><numFmt numFmtId="170" formatCode="yyyy\-mm"/><numFmt numFmtId="171" ` +
			`formatCode="0.0 &quot;days&quot;"/><numFmt numFmtId="172" formatCode="[h]:mm"/></numFmts>` +
			`<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/><xf numFmtId="171"/><xf ` +
			`numFmtId="20"/><xf numFmtId="10"/><xf numFmtId="172"/></cellXfs></styleSheet>`,
		"xl/worksheets/sheet1.xml": `<worksheet><sheetData>` + rows + `</sheetData></worksheet>`,
		"xl/worksheets/sheet2.xml": `<worksheet><sheetData><row><c ` +
			`t="inlineStr"><is><t>draft</t></is></c></row></sheetData></worksheet>`,
	})
}

func slides(t testing.TB, shapes string) []byte {
	slide := `<p:sld ` + nameSpaces + ` %s><p:cSld><p:spTree>%s</p:spTree></p:cSld></p:sld>`
	return archive(t, map[string]string{
		"_rels/.rels":                     relations("officeDocument", "ppt/presentation.xml"),
		"ppt/_rels/presentation.xml.rels": relations("slide", "slides/b.xml", "slide", "slides/a.xml"),
		"ppt/presentation.xml": `<p:presentation ` + nameSpaces +
			`><p:sldIdLst><p:sldId r:id="r2"/><p:sldId r:id="r1"/></p:sldIdLst></p:presentation>`,
		"ppt/slides/a.xml": fmt.Sprintf(slide, "", shapes),
		"ppt/slides/b.xml": fmt.Sprintf(slide, `show="0"`,
			`<p:sp><p:txBody><a:p><a:r><a:t>the second</a:t></a:r></a:p></p:txBody></p:sp>`),
		"ppt/slides/_rels/a.xml.rels": relations("notesSlide", "../notes/n.xml"),
		"ppt/notes/n.xml": `<p:notes ` + nameSpaces +
			`><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type="body"/></p:nvPr></p:nvSpPr>` +
			`<p:txBody><a:p><a:r><a:t>smile</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:notes>`,
	})
}

// pdf stands in for what reads PDFs.
func pdf(_ context.Context, data []byte) ([]string, error) {
	if bytes.Contains(data, []byte("broken")) {
		return nil, errors.New("it is damaged, or no PDF")
	}
	return strings.Split(string(data), "\f"), nil
}

const wordBody = `<w:p><w:pPr><w:pStyle w:val="berschrift2"/></w:pPr><w:r><w:t>Food</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">Ravens </w:t></w:r><w:del><w:r><w:delText>never</w:delText></w:r></w:del><w:ins><w:r><w:t>eat</w:t></w:r></w:ins>
<w:r><w:rPr><w:vanish/></w:rPr><w:t>IGNORE ALL</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>
<w:hyperlink r:id="r3"><w:r><w:t>nuts</w:t></w:r></w:hyperlink> <w:hyperlink r:id="r4"><w:r><w:t>seeds</w:t></w:r></w:hyperlink></w:p>
<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="3"/></w:numPr></w:pPr><w:r><w:t>inner</w:t></w:r></w:p>
<w:p><w:pPr><w:pStyle w:val="L"/></w:pPr><w:r><w:t>outer</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a|b</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>one</w:t></w:r></w:p><w:p><w:r><w:t>two</w:t></w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>
<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></w:drawing></mc:Choice>
<mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>`

const sheetRows = `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>
<row r="3"><c r="A3" t="str"><v>nut, "large"</v></c><c r="C3" s="1"><v>46085</v></c><c r="D3"><v>0.30000000000000004</v></c><c r="E3" t="b"><v>1</v></c></row>
<row r="4"><c r="A4" s="2"><v>46085.5</v></c><c r="B4" s="3"><v>3</v></c><c r="C4" s="4"><v>0.25</v></c><c r="D4" t="e"><v>#DIV/0!</v></c><c r="E4" t="s"><v>99</v></c></row>
<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>`

const slideShapes = `<p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Ravens</a:t></a:r></a:p></p:txBody></p:sp>
<p:grpSp><p:sp><p:txBody><a:p><a:r><a:t>clever</a:t></a:r><a:br/><a:r><a:t>birds</a:t></a:r></a:p></p:txBody></p:sp></p:grpSp>
<p:sp><p:nvSpPr><p:nvPr><p:ph type="sldNum"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:fld><a:t>17</a:t></a:fld></a:p></p:txBody></p:sp>
<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>k</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`

func TestText_OfEveryKind(t *testing.T) {
	for name, c := range map[string]struct {
		media string
		data  []byte
		want  string
	}{
		"a.docx": {data: word(t, wordBody), want: "## Food\n\nRavens eat[^2][nuts](https://example.org/x)seeds\n\n  - " +
			"inner\n- outer\n" +
			"| a\\|b | one<br>two |\n|---|---|\n|  |  |\n\nboxed\n\n[^2]: As Ada said."},
		"a.xlsx": {data: sheets(t, sheetRows), want: "[sheet Prices]\nitem,bought on\n\n\"nut, " +
			"\"\"large\"\"\",,2026-03-04,0.30000000000000004,TRUE\n" +
			"2026-03-04 12:00:00,3,06:00:00,#DIV/0!\n7\n\n[sheet Drafts (hidden)]\ndraft"},
		"a.pptx": {data: slides(t, slideShapes), want: "[slide 1]\n# Ravens\n\nclever\nbirds\n\n| k |\n|---|\n\nNotes: smile\n\n[slide 2 (hidden)]\nthe second"},
		"a.pdf":  {data: []byte("one\ftwo"), want: "[p. 1]\none\n\n[p. 2]\ntwo"},
		"a.html": {data: []byte("<title>T</title><p>Hello <b>you</b><script>x()</script></p>"), want: "# T\n\nHello **you**"},
		"a.csv":  {data: []byte("a,b\r\n\"\xe4\",2"), want: "a,b\n\"ä\",2"},
		"b.txt":  {data: []byte("\xff\xfeh\x00i\x00"), want: "hi"},
		"a.txt":  {data: []byte("plain\r\ntext"), want: "plain\ntext"},
		"a.go":   {data: []byte("package a"), want: "package a"},
		"noname": {media: "text/plain; charset=iso-8859-1", data: []byte("x"), want: "x"},
		"report": {media: "application/pdf", data: []byte("one"), want: "[p. 1]\none"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := document.NewReader(pdf).Text(t.Context(), name, c.media, c.data)
			if err != nil || got != c.want {
				t.Errorf("%v\n got %q\nwant %q", err, got, c.want)
			}
			if !document.Reads(name, c.media) {
				t.Error("it is said not to be read")
			}
		})
	}
}

func TestRead_FilesThatCannotBeRead_SayWhyInWords(t *testing.T) {
	repeat := strings.Repeat
	bomb := repeat("<w:p><w:r><w:t>"+repeat("a", 1000)+"</w:t></w:r></w:p>", 66_000) // 68 MB, in 200 KB of a file
	entities := `<!DOCTYPE w:document [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>` +
		`<w:document ` + nameSpaces + `><w:body><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:body></w:document>`
	begin := map[string]string{"_rels/.rels": relations("officeDocument", "word/document.xml")}
	withMain := func(main string) []byte {
		return archive(t, map[string]string{"_rels/.rels": begin["_rels/.rels"], "word/document.xml": main})
	}
	const tooMuch, damaged = "unpacks to more than", "damaged, or not what its name says"
	for name, c := range map[string]struct {
		file string
		data []byte
		want string
	}{
		"a zip bomb":               {"a.docx", word(t, bomb), tooMuch},
		"a bomb of entities":       {"a.docx", withMain(entities), damaged},
		"very deep":                {"a.docx", word(t, repeat("<w:ins>", 1000)+repeat("</w:ins>", 1000)), tooMuch},
		"many elements":            {"a.docx", word(t, repeat("<w:p/>", 510_000)), tooMuch},
		"many attributes":          {"a.docx", word(t, repeat(`<w:p a="" b="" c=""/>`, 170_000)), tooMuch},
		"a tag of many attributes": {"a.docx", word(t, "<w:p"+repeat(` a=">"`, 200_000)+"/>"), tooMuch},
		"many cells":               {"a.xlsx", sheets(t, "<row>"+repeat("<c/>", 410_000)+"</row>"), tooMuch},
		"a file without main part": {"a.docx", archive(t, begin), damaged},
		"parts in a circle":        {"a.docx", archive(t, map[string]string{"_rels/.rels": relations("officeDocument", "_rels/.rels")}), "no text"},
		"a cut file":               {"a.xlsx", sheets(t, sheetRows)[:900], damaged},
		"no zip":                   {"a.pptx", []byte("hello"), damaged},
		"with a password":          {"a.docx", []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1..."), "password"},
		"old":                      {"a.doc", []byte("\xD0\xCF\x11\xE0"), "save it as .docx"},
		"a broken PDF":             {"a.pdf", []byte("broken"), "it is damaged, or no PDF"},
		"a program":                {"a.exe", []byte("MZ"), "PDF, Word, Excel"},
		"binary":                   {"a.txt", []byte("a\x00b"), "it is not text"},
		"empty":                    {"a.txt", []byte(" \n"), "it holds no text"},
		"an empty page":            {"a.html", []byte("<script>x</script>"), "it holds no text"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			list, err := document.NewReader(pdf).Read(t.Context(), c.file, "", c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) || list != nil {
				t.Errorf("the error is %v, want %q in it; %d sections", err, c.want, len(list))
			}
			// On an idle machine the slowest takes a second; the race detector makes that twenty.
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Cells that refer to the same text cost no memory before their limit is checked, in whatever rows they are.
func TestRead_SheetWithRepeatedText_AllocatesLittle(t *testing.T) {
	const cell = `<c t="s"><v>0</v></c>`
	letters, blanks := strings.Repeat("a", 1<<20), strings.Repeat(" ", 1<<20)
	for name, c := range map[string]struct{ shared, rows string }{
		"in one row":        {letters, "<row>" + strings.Repeat(cell, 2_000) + "</row>"},
		"in many rows":      {letters, strings.Repeat("<row>"+cell+"</row>", 2_000)},
		"blank in one row":  {blanks, "<row>" + strings.Repeat(cell, 2_000) + "</row>"},
		"blank in each row": {blanks, strings.Repeat("<row>"+cell+"</row>", 2_000)},
	} {
		t.Run(name, func(t *testing.T) {
			file := sheetsSharing(t, "<si><t>"+c.shared+"</t></si>", c.rows)
			took, _, err := allocatedBy(t, file)
			if err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
				t.Errorf("the error is %v", err)
			}
			if took > 200<<20 {
				t.Errorf("reading a file of %d KiB allocated %d MiB", len(file)>>10, took>>20)
			}
		})
	}
}

// The parts of a text cost their length, not its square, and those that hold nothing cost no memory.
func TestRead_TextOfManyRuns_AllocatesLittle(t *testing.T) {
	refer := `<row><c t="s"><v>0</v></c></row>`
	runs := strings.Repeat("<r><t>abcdefghi </t></r>", 20_000)
	empty := strings.Repeat("<r/>", 1<<20) + "<t>end</t>"
	phonetic := "<t>word</t>" + strings.Repeat("<rPh><t>sound</t></rPh>", 10)
	for name, c := range map[string]struct {
		shared, rows, want string // the end of the text or of the error
		max                uint64 // MiB allocated
	}{
		"shared":        {"<si>" + runs + "</si>", refer, "defghi", 100},
		"in the cell":   {"", `<row><c t="inlineStr"><is>` + runs + "</is></c></row>", "defghi", 100},
		"empty":         {"<si>" + empty + "</si>", refer, "end", 250},
		"pronunciation": {"<si>" + phonetic + "</si>", refer, "word", 10},
		"too long":      {"<si><r><t>" + strings.Repeat("a", 9<<20) + "</t></r></si>", "", "MiB of text", 200},
		"too many":      {strings.Repeat("<si/>", 410_000), refer, "MiB of text", 500},
	} {
		t.Run(name, func(t *testing.T) {
			file := sheetsSharing(t, c.shared, c.rows)
			took, list, err := allocatedBy(t, file)
			got := fmt.Sprint(err)
			if err == nil {
				got = strings.TrimSpace(list[0].Text)
			}
			if !strings.HasSuffix(got, c.want) {
				t.Errorf("it reads as %.50q, which does not end with %q", got, c.want)
			}
			if took > c.max<<20 {
				t.Errorf("reading it allocated %d MiB, want at most %d", took>>20, c.max)
			}
		})
	}
}

// allocatedBy returns how many bytes reading an Excel file allocated, and what was read of it.
func allocatedBy(t *testing.T, file []byte) (uint64, []document.Section, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := document.NewReader(pdf).Read(t.Context(), "a.xlsx", "", file)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, list, err
}

// One PDF is read at a time, and whoever gives up waiting is told so.
func TestRead_SecondPDF_Waits(t *testing.T) {
	reading, end := make(chan bool), make(chan bool)
	r := document.NewReader(func(context.Context, []byte) ([]string, error) {
		reading <- true
		<-end
		return []string{"x"}, nil
	})
	first := make(chan error)
	go func() {
		_, err := r.Read(context.Background(), "a.pdf", "", nil)
		first <- err
	}()
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, "b.pdf", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the second ends with %v", err)
	}
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a.docx", word(f, wordBody))
	f.Add("a.xlsx", sheets(f, sheetRows))
	f.Add("a.pptx", slides(f, slideShapes))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if len(data) > 1<<16 {
			t.Skip()
		}
		if _, err := document.NewReader(pdf).Read(t.Context(), name, "", data); err != nil && err.Error() == "" {
			t.Error("there is no reason")
		}
	})
}

func TestRead_OfficeFilesAreReadOneAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	r := document.NewReader(func(context.Context, []byte) ([]string, error) {
		close(begun)
		<-end
		return []string{"one"}, nil
	})
	read := make(chan error, 1)
	go func() {
		_, err := r.Read(t.Context(), "a.pdf", "", nil)
		read <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, name := range []string{"a.docx", "a.xlsx", "a.pptx"} {
		if _, err := r.Read(ctx, name, "", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s beside another file: %v, want that it waited", name, err)
		}
	}
	if got, err := r.Text(t.Context(), "a.txt", "", []byte("x")); err != nil || got != "x" {
		t.Errorf("a text beside another file: %q, %v", got, err)
	}
	close(end)
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// Shares, durations and formulas without a value are read as a sheet shows them.
func TestSheets_PercentDurationFormula(t *testing.T) {
	data := sheets(t, `<row r="1"><c r="A1" s="5"><v>0.125</v></c><c r="B1" s="5"><v>0.07</v></c><c r="C1" s="6"><v>1.5</v></c>`+
		`<c r="D1" s="6"><v>0.0423611111</v></c><c r="E1"><f>SUM(A1:B1)</f></c><c r="F1"><f>1+1</f><v>2</v></c></row>`)
	got, err := document.NewReader(pdf).Text(t.Context(), "a.xlsx", "", data)
	if want := "12.5 %,7 %,36:00,1:01,=SUM(A1:B1),2"; err != nil || !strings.Contains(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// Raised and lowered figures, and formulas, stay what they are.
func TestWord_FiguresAndFormulas(t *testing.T) {
	run := func(words, align string) string {
		return `<w:r><w:rPr><w:vertAlign w:val="` + align + `"/></w:rPr><w:t>` + words + `</w:t></w:r>`
	}
	part := func(name, words string) string {
		return "<m:" + name + "><m:r><m:t>" + words + "</m:t></m:r></m:" + name + ">"
	}
	data := word(t, `<w:p><w:r><w:t>10</w:t></w:r>`+run("6", "superscript")+`<w:r><w:t> people drink H</w:t></w:r>`+
		run("2", "subscript")+`<w:r><w:t>O, </w:t></w:r><m:oMath><m:f>`+part("num", "a")+part("den", "b+c")+`</m:f><m:sSup>`+
		part("e", "x")+part("sup", "2")+`</m:sSup></m:oMath></w:p>`)
	got, err := document.NewReader(pdf).Text(t.Context(), "a.docx", "", data)
	if want := "10⁶ people drink H₂O, a/(b+c)x^2"; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
