// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"strings"
)

// DeathTitle begins the title of the table of one death. Its rows are in seconds after the last renewal.
const DeathTitle = "One death, s after the last renewal"

// The rows of that table, in the order of time.
const (
	Dies     = "the DPU dies"
	Expires  = "the lease expires"
	NotReady = "the host side turns NotReady"
	Refused  = "first refused ADD"
	Renews   = "first renewal of the DPU that is back"
	Ready    = "the host side turns Ready"
)

// DeathRows are all of them.
var DeathRows = []string{Dies, Expires, NotReady, Refused, Renews, Ready}

// Death draws a time line for each side: until when it admits Pods, and from when again. Where several hosts poll at
// different moments, what is between the first and the last of them has a colour of its own.
func Death(tables []*Table) (string, error) {
	var table *Table
	for _, t := range tables {
		if strings.HasPrefix(t.Title, DeathTitle) {
			table = t
		}
	}
	if table == nil {
		return "", fmt.Errorf("no table is called '%s'", DeathTitle)
	}
	columns := [2]map[string]Value{{}, {}}
	for _, name := range DeathRows {
		ours, theirs, err := table.Row(name)
		if err != nil {
			return "", err
		}
		columns[0][name], columns[1][name] = ours, theirs
	}
	end := max(columns[0][Ready].Most, columns[1][Ready].Most) + 1
	at := func(seconds float64) float64 { return 12 + seconds*(width-24)/end }

	var s svg
	s.text("text head", "start", 12, 26, "A DPU dies and comes back")
	s.text("quiet", "start", 12, 47, "seconds after its last renewal"+strings.TrimPrefix(table.Title, DeathTitle))
	var said []string
	y := 62.0
	for i, name := range []string{"dpu-heartbeat", "ovn-kubernetes' check, re-implemented"} {
		of := columns[i]
		s.text("text head", "start", 12, y+18, name)
		top := y + 50
		for _, mark := range []struct{ row, anchor, word string }{{Dies, "start", "dies"}, {Expires, "middle", "expires"}, {Renews, "middle", "renews"}} {
			s.line("line", at(of[mark.row].Median), top-10, at(of[mark.row].Median), top+30)
			x := at(of[mark.row].Median)
			s.text("quiet", mark.anchor, x, top-14, fmt.Sprintf("%s %.1f", mark.word, of[mark.row].Median))
		}
		s.rect("ready", at(0), top, at(of[NotReady].Least)-at(0), 24)
		s.rect("poll", at(of[NotReady].Least), top, at(of[NotReady].Most)-at(of[NotReady].Least), 24)
		s.rect("down", at(of[NotReady].Most), top, at(of[Ready].Least)-at(of[NotReady].Most), 24)
		s.rect("poll", at(of[Ready].Least), top, at(of[Ready].Most)-at(of[Ready].Least), 24)
		s.rect("ready", at(of[Ready].Most), top, at(end)-at(of[Ready].Most), 24)
		words := []string{
			"NotReady " + after(of[NotReady], of[Expires]) + " after the expiry;",
			"first refused ADD " + after(of[Refused], of[Expires]) + " after it;",
			"Ready " + after(of[Ready], of[Renews]) + " after the first renewal",
		}
		for n, line := range words {
			s.text("text", "start", 12, top+48+float64(n)*19, line)
		}
		said = append(said, name+": "+strings.Join(words, " "))
		y = top + 98
	}
	s.rect("ready", 12, y+12, 12, 12)
	s.text("text", "start", 29, y+23, "Pods are admitted")
	s.rect("down", 166, y+12, 12, 12)
	s.text("text", "start", 183, y+23, "rejected")
	s.rect("poll", 262, y+12, 12, 12)
	s.text("text", "start", 279, y+23, "depends on the poll")
	return s.page(y+38, "A DPU dies and comes back: when each check knows", strings.Join(said, ". ")+"."), nil
}

// after is a span from one moment to others: in milliseconds below a tenth of a second.
func after(to, from Value) string {
	span := func(v float64) string {
		if v -= from.Median; v < 0.1 {
			return fmt.Sprintf("%.0f ms", 1000*v)
		} else {
			return fmt.Sprintf("%.1f s", v)
		}
	}
	least, most := span(to.Least), span(to.Most)
	if least == most {
		return least
	}
	return least + " to " + most
}
