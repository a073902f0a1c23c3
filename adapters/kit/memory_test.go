package kit

import "testing"

func TestMemory_KeepsTheLatest(t *testing.T) {
	m := Memory[int]{Size: 3}
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if !m.First(key) || m.First(key) {
			t.Errorf("%s was known, or is not", key)
		}
		m.Put(key, i)
	}
	for key, want := range map[string]bool{"a": false, "d": true, "g": true} {
		if _, known := m.Get(key); known != want {
			t.Errorf("%s is known: %v", key, known)
		}
	}
	m.Drop("g")
	if was, known := m.Change("g", func(int, bool) int { return 9 }); known || was != 0 {
		t.Errorf("%d is remembered of what was dropped", was)
	}
	if v, _ := m.Get("g"); v != 9 {
		t.Errorf("remembered %d", v)
	}
}
