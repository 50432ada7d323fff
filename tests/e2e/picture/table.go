// SPDX-License-Identifier: Apache-2.0

// Package picture draws what was measured. It reads the tables of docs/performance/measured.md, so that a picture and
// its table cannot differ, and writes one SVG for each: the same page makes the same bytes. A test holds the pictures
// in docs/performance to the page.
package picture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Value is a cell: a median, with the least and the most where there were several runs.
type Value struct{ Median, Least, Most float64 }

// Table is one of the page: a title, the names of two columns, and rows of a value for each.
type Table struct {
	Title   string
	Columns [2]string
	names   []string
	rows    map[string][2]Value
}

// Row returns both columns of a row.
func (t *Table) Row(name string) (ours, theirs Value, err error) {
	row, found := t.rows[name]
	if !found {
		return ours, theirs, fmt.Errorf("table '%s' has no row '%s'", t.Title, name)
	}
	return row[0], row[1], nil
}

// Tables reads all tables of a page whose rows are a name and two values; what is behind these is left out, and so is
// a table whose cells are no values.
func Tables(page string) []*Table {
	var all []*Table
	var table *Table
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) < 3 {
			table = nil
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if table == nil {
			table = &Table{Title: cells[0], Columns: [2]string{cells[1], cells[2]}, rows: map[string][2]Value{}}
			all = append(all, table)
			continue
		}
		ours, first := parse(cells[1])
		theirs, second := parse(cells[2])
		if first == nil && second == nil {
			table.names = append(table.names, cells[0])
			table.rows[cells[0]] = [2]Value{ours, theirs}
		}
	}
	return all
}

// parse takes "13" and "13 (12 to 14)".
func parse(cell string) (Value, error) {
	median, spread, several := strings.Cut(cell, " (")
	v, err := strconv.ParseFloat(median, 64)
	if err != nil || !several {
		return Value{v, v, v}, err
	}
	least, most, _ := strings.Cut(strings.TrimSuffix(spread, ")"), " to ")
	low, err := strconv.ParseFloat(least, 64)
	if err != nil {
		return Value{}, err
	}
	high, err := strconv.ParseFloat(most, 64)
	return Value{v, low, high}, err
}

// Draw reads DIR/performance/measured.md and returns the pictures, by their names there.
func Draw(dir string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(dir, "performance/measured.md"))
	if err != nil {
		return nil, err
	}
	tables := Tables(string(page))
	death, err := Death(tables)
	if err != nil {
		return nil, err
	}
	storms, err := Storms(tables)
	return map[string]string{"death.svg": death, "storms.svg": storms}, err
}

// Write puts the pictures beside the page.
func Write(dir string) error {
	pictures, err := Draw(dir)
	if err != nil {
		return err
	}
	for name, text := range pictures {
		if err := os.WriteFile(filepath.Join(dir, "performance", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Replace puts text into the page, between its marks.
func Replace(dir, begin, end, text string) error {
	path := filepath.Join(dir, "performance/measured.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has not both marks %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(head+begin+text+end+tail), 0o644)
}
