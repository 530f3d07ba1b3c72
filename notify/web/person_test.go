package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"paramedic/state"
)

func TestRunThatNeedsAPersonHasAButton(t *testing.T) {
	for _, as := range []state.ActionState{state.NeedsHuman, "evacuating"} {
		v := fixture()
		a := &v.actions[0]
		a.State = as
		for _, page := range []string{"/actions", "/incidents/" + string(a.Incident)} {
			_, body := get(t, handler(t, v, nil), page, nil)
			contains(t, body, `data-post="/api/v1/actions/`+string(a.ID)+`/cancel"`, "It is taken care of", "gets no other first aid")
		}
		a.Journal = map[string]string{state.Released: "asha"}
		if c := newActionCard(*a); c.CanCancel || c.Waits || c.Tone != "mute" {
			t.Errorf("%+v", c)
		}
		_, body := get(t, handler(t, v, nil), "/actions", nil)
		contains(t, body, "Taken care of by asha.")
	}
}

// A person may call a verdict wrong and name another cause, also after the incident is resolved.
func TestFeedbackMayNameAnotherCause(t *testing.T) {
	h := handler(t, fixture(), func(c *Config) { c.Causes = []state.Cause{"kv_exhaustion", "kv_leak"} })
	for name, path := range map[string]string{"open": everyPage[1], "acknowledged": everyPage[2], "resolved": everyPage[4]} {
		_, body := get(t, h, path, nil)
		_, form, _ := strings.Cut(body, `data-testid="incident-form"`)
		form, _, _ = strings.Cut(form, "</form>")
		for _, want := range []string{`<option value="kv_leak">kv leak</option>`, `data-testid="right"`, `data-testid="wrong"`} {
			if !strings.Contains(form, want) {
				t.Errorf("%s: the form has no %s: %s", name, want, form)
			}
		}
		if strings.Contains(form, `value="kv_exhaustion"`) != (name == "acknowledged") {
			t.Errorf("%s: the form offers the verdict's own cause, or lacks another: %s", name, form)
		}
	}
	v := fixture()
	v.incidents[slicesIndex(v.incidents, 42)].MergedInto = v.incidents[slicesIndex(v.incidents, 43)].ID
	if _, body := get(t, handler(t, v, nil), everyPage[1], nil); strings.Contains(body, `data-testid="wrong"`) {
		t.Error("a merged incident asks for feedback")
	}
}

// A reader who sees neither colours nor marks hears how a check was answered.
func TestChecksNameTheirState(t *testing.T) {
	h := handler(t, fixture(), nil)
	for path, want := range map[string]string{everyPage[1]: "bad", "/playbooks/kv_exhaustion": "not run"} {
		_, body := get(t, h, path, nil)
		contains(t, body, `<span class="mark" role="img" aria-label="`+want+`" title="`+want+`"></span>`)
	}
}

// The headings of a page are its outline: one of the first level, and none skips a level.
func TestHeadingsAreAnOutline(t *testing.T) {
	h := handler(t, fixture(), nil)
	heading := regexp.MustCompile(`<h([1-6])[ >]`)
	for _, page := range append(slices.Clone(everyPage), "/playbooks/kv_exhaustion", "/nowhere", "/incidents/INC-9") {
		_, body := get(t, h, page, nil)
		last, first := 0, 0
		for _, m := range heading.FindAllStringSubmatch(body, -1) {
			level := int(m[1][0] - '0')
			if level == 1 {
				first++
			}
			if level > last+1 {
				t.Errorf("%s: a heading of level %d follows one of level %d", page, level, last)
			}
			last = level
		}
		if first != 1 {
			t.Errorf("%s has %d headings of the first level", page, first)
		}
	}
}
