// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"strings"
)

// panels are the rows of the storms' tables that are drawn. The third shows where upstream's scheme is ahead.
var panels = []string{
	"CPU time of the API server, s",
	"peak of requests per second",
	"all Ready again after, s",
	"hosts that turned NotReady",
}

// What a storm's table is called, and in the picture: a label has 150 units.
var labels = []struct{ title, label string }{
	{"all hosts started at once", "all hosts start"},
	{"API server gone for one duration", "API server gone"},
	{"two API servers restarted in turn", "servers restart"},
	{"etcd silent for 15 s", "etcd silent"},
	{"duration of all changed, agents restarted one by one", "duration changed"},
}

type storm struct {
	label string
	*Table
}

func storms(tables []*Table) ([]storm, error) {
	var found []storm
	for _, l := range labels {
		for _, t := range tables {
			if strings.HasSuffix(t.Title, ": "+l.title) {
				found = append(found, storm{l.label, t})
			}
		}
	}
	if len(found) != len(labels) {
		return nil, fmt.Errorf("%d of %d storms have a table", len(found), len(labels))
	}
	return found, nil
}

// Storms draws a bar for each scheme, storm and panel: the median, with the least and the most of the runs.
func Storms(tables []*Table) (string, error) {
	all, err := storms(tables)
	if err != nil {
		return "", err
	}
	const left, right, bar, gap = 146, 62, 14, 8
	title := "What storms cost: medians of the runs, least to most"
	size, _, _ := strings.Cut(all[0].Title, " (")
	var s svg
	s.text("text head", "start", 12, 26, "Storms of "+size)
	s.rect("ours", 12, 40, 12, 12)
	s.text("text", "start", 30, 51, "dpu-heartbeat")
	s.rect("theirs", 142, 40, 12, 12)
	s.text("text", "start", 160, 51, "upstream's scheme, re-implemented")
	s.text("quiet", "start", 12, 72, "bars: medians of the runs; lines: least to most")
	y := 86.0
	for _, panel := range panels {
		y += 22
		s.text("text head", "start", 12, y, panel)
		y += 10
		most := 0.0
		for _, one := range all {
			ours, theirs, err := one.Row(panel)
			if err != nil {
				return "", err
			}
			most = max(most, ours.Most, theirs.Most)
		}
		for _, one := range all {
			ours, theirs, _ := one.Row(panel)
			s.text("text", "end", left-8, y+bar+5, one.label)
			for i, v := range []Value{ours, theirs} {
				unit := (width - left - right) / max(most, 1)
				top := y + float64(i*bar)
				s.rect([]string{"ours", "theirs"}[i], left, top, v.Median*unit, bar-1)
				if v.Most > v.Least {
					s.line("whisker", left+v.Least*unit, top+bar/2-0.5, left+v.Most*unit, top+bar/2-0.5)
				}
				s.text("text", "start", left+v.Most*unit+6, top+bar-2, fmt.Sprintf("%g", v.Median))
			}
			y += 2*bar + gap
		}
	}
	return s.page(y+8, title, describe(all)), nil
}

// describe has the figures in words.
func describe(all []storm) string {
	var words []string
	for _, panel := range panels {
		for _, one := range all {
			ours, theirs, _ := one.Row(panel)
			words = append(words, fmt.Sprintf("%s, %s: ours %g, upstream's %g.", panel, one.label, ours.Median, theirs.Median))
		}
	}
	return strings.Join(words, " ")
}
