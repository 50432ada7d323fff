// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"html"
	"strings"
)

// width is in the picture's own units. Its text is 14 of them high: 11 pixels on a phone of 375, 18 on a page.
const width = 480

// style has the colours of both schemes, on a ground of its own: whoever shows the picture may have another theme than
// the browser. Ours is blue and theirs is orange, which people who cannot tell red from green can tell.
const style = `<style>
.ground{fill:#fff}.text{fill:#1f2328}.quiet{fill:#59636e}.line{stroke:#59636e}.grid{stroke:#d1d9e0}
.ours{fill:#0969da}.theirs{fill:#bc4c00}.ready{fill:#54aeff}.down{fill:#6e2c00}.poll{fill:#f0b37e}.whisker{stroke:#1f2328}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#f0f6fc}.quiet{fill:#9198a1}.line{stroke:#9198a1}
.grid{stroke:#3d444d}.ours{fill:#58a6ff}.theirs{fill:#f0883e}.ready{fill:#1f6feb}.down{fill:#ffa657}.poll{fill:#9b5a2a}.whisker{stroke:#f0f6fc}}
text{font:14px system-ui,-apple-system,"Segoe UI",sans-serif}.head{font-weight:600;font-size:16px}
</style>
`

// svg collects the elements of one picture.
type svg struct{ strings.Builder }

func (s *svg) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(s, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x, y, w, h)
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2)
}

// text is anchored "start", "middle" or "end" at x.
func (s *svg) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(s, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, anchor, x, y, html.EscapeString(text))
}

// page is the whole picture. alt says the same to who cannot see it.
func (s *svg) page(height float64, title, alt string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"620\" viewBox=\"0 0 %d %.0f\">\n"+
		"<title>%s</title>\n<desc>%s</desc>\n%s<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
		width, height, html.EscapeString(title), html.EscapeString(alt), style, s.String())
}
