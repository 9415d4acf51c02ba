package config

import (
	"reflect"
	"testing"
)

func TestIgnoredKeys(t *testing.T) {
	known := Key[string]{Name: "known"}
	d := Define(known).Ignoring(map[string]string{"old": "it is old", "driver.*": "Java's driver", "known": "nothing reads it"})
	v, errs := d.Parse(map[string]string{"known": "1", "old": "2", "driver.a": "3", "driver.a.b": "4", "driver.": "5", "driver": "6", "drivers.a": "7"})
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	want := []Notice{{"driver.a", "Java's driver"}, {"driver.a.b", "Java's driver"}, {"known", "nothing reads it"}, {"old", "it is old"}}
	if got := v.Ignored(); !reflect.DeepEqual(got, want) {
		t.Errorf("ignored %v, want %v", got, want)
	}
	if got, want := v.Undeclared(), []string{"driver", "driver.", "drivers.a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("undeclared %v, want %v", got, want)
	}
}
