// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const docs = "../../../docs"

// The pictures that are shown are those of the page that is shown.
func TestGivenThePageOfWhatWasMeasuredWhenItIsDrawnThenThatIsThePicturesBesideIt(t *testing.T) {
	pictures, err := Draw(docs)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range pictures {
		there, err := os.ReadFile(filepath.Join(docs, "performance", name))
		if err != nil || string(there) != text {
			t.Errorf("%s is not of the page (%v): run 'tests/e2e/run.sh draw'", name, err)
		}
		decoder := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestGivenCellsWhenTheyAreReadThenWhatIsNoValueIsNone(t *testing.T) {
	for cell, want := range map[string]Value{
		"13": {13, 13, 13}, "13 (12 to 14)": {13, 12, 14}, "0.42 (0.40 to 1)": {0.42, 0.4, 1},
	} {
		if got, err := parse(cell); err != nil || got != want {
			t.Errorf("%s: %v, %v", cell, got, err)
		}
	}
	for _, cell := range []string{"", "-", "x", "13 (12)", "13 (a to 14)", "13 (12 to b)"} {
		if got, err := parse(cell); err == nil {
			t.Errorf("%s: %v", cell, got)
		}
	}
}

func TestGivenAPageThatLacksATableOrARowWhenItIsDrawnThenItIsRefused(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "performance/measured.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{DeathTitle, "| " + Refused, ": etcd silent for 15 s", "| peak of requests per second"} {
		tables := Tables(strings.ReplaceAll(string(page), lost, "| another"))
		_, first := Death(tables)
		_, second := Storms(tables)
		if first == nil && second == nil {
			t.Errorf("without '%s' it is drawn all the same", lost)
		}
	}
}

func TestGivenAnotherFigureWhenItIsDrawnThenThePictureDiffers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "performance/measured.md"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := Tables(string(page)), Tables(strings.Replace(string(page), "| CPU time of the API server, s | ", "| CPU time of the API server, s | 1", 1))
	one, err := Storms(before)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Storms(after); err != nil || one == other {
		t.Errorf("a figure that nobody draws (%v)", err)
	}
}

func TestGivenMarksWhenTextIsReplacedThenTheRestStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "performance", "measured.md")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("head\n<a>\nold\n<b>\ntail\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Replace(dir, "<a>\n", "<b>\n", "new\n"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "head\n<a>\nnew\n<b>\ntail\n" {
		t.Errorf("%s", text)
	}
	if Replace(dir, "<a>\n", "<c>\n", "new\n") == nil {
		t.Error("a mark that is missing is not told")
	}
}
