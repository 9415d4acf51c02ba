package log_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table of DESIGN.md, section 6: what ApiVersions says. Minimums equal Kafka 4.3's, since librdkafka derives features from exact ranges. SASL is
// announced where it is configured (see the tests of signing in).
var listedAPIs = map[int16][2]int16{
	0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 18: {0, 4},
	19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}, 24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 27: {1, 2}, 28: {0, 5}, 32: {1, 4}, 33: {0, 2}, 35: {1, 5}, 37: {0, 3}, 42: {0, 2}, 44: {0, 1},
	46: {0, 0}, 47: {0, 0}, 60: {0, 2}, 61: {0, 0}, 65: {0, 0}, 66: {0, 2}, 68: {0, 1}, 69: {0, 1}, 75: {0, 0},
}

func TestEveryListedAPIIsServedInTheListedVersions(t *testing.T) {
	l := tcpLog(t)
	vs, err := l.Admin().ApiVersions(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range vs {
		announced := map[int16][2]int16{}
		b.EachKeySorted(func(key, min, max int16) { announced[key] = [2]int16{min, max} })
		for key, want := range listedAPIs {
			if got, ok := announced[key]; !ok || got != want {
				t.Errorf("%s (%d): announced %v, listed %v", kmsg.NameForKey(key), key, got, want)
			}
		}
		for key, got := range announced {
			switch _, listed := listedAPIs[key]; {
			case listed:
			case key == 17 || key == 36 || key == 48 || key == 50 || key == 51: // SASL, its users, and the quotas that their tool asks for
			default:
				t.Errorf("%s (%d) %v is announced and not listed", kmsg.NameForKey(key), key, got)
			}
		}
	}
}
