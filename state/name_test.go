package state

import "testing"

func TestShortNamesParse(t *testing.T) {
	for text, want := range map[string]NameQuery{"7": {"", 7}, "#7": {"", 7}, "prod-7": {"prod", 7}, "#us-east-1-12": {"us-east-1", 12},
		"INC-01KA": {}, "01": {}, "prod-": {},
		"": {}, "#": {}, "-7": {}, "prod-07": {}, "99999999999999999999": {}} {
		if got, ok := ParseShortName(text); got != want && ok || ok != (want.Number > 0) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, ok, want)
		}
	}
}
