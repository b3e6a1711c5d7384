package backend

// agenda is a heap of entries by due. It keeps each entry's index and agenda.
type agenda struct {
	id   agendaID
	heap []*entry
}

// agendaID says which agenda of its shard an entry is in.
type agendaID uint8

const (
	inNone agendaID = iota
	inSpare
	inDenying
)

// first returns the entry that is due first, or nil.
func (a *agenda) first() *entry {
	if len(a.heap) == 0 {
		return nil
	}
	return a.heap[0]
}

func (a *agenda) add(e *entry) {
	e.in, e.index = a.id, int32(len(a.heap))
	a.heap = append(a.heap, e)
	a.up(int(e.index))
}

func (a *agenda) remove(e *entry) {
	i, last := int(e.index), len(a.heap)-1
	a.swap(i, last)
	a.heap[last] = nil
	a.heap = a.heap[:last]
	e.in = inNone
	if i < last {
		a.fix(i)
	}
	if cap(a.heap) > 1024 && len(a.heap) < cap(a.heap)/4 {
		a.heap = append(make([]*entry, 0, cap(a.heap)/2), a.heap...)
	}
}

func (a *agenda) reschedule(e *entry, due int64) {
	e.due = due
	a.fix(int(e.index))
}

func (a *agenda) fix(i int) {
	if !a.up(i) {
		a.down(i)
	}
}

// up moves the entry at i towards the front, and reports whether it moved.
func (a *agenda) up(i int) bool {
	began := i
	for i > 0 {
		parent := (i - 1) / 2
		if a.heap[parent].due <= a.heap[i].due {
			break
		}
		a.swap(i, parent)
		i = parent
	}
	return i != began
}

func (a *agenda) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			return
		}
		if right := child + 1; right < len(a.heap) && a.heap[right].due < a.heap[child].due {
			child = right
		}
		if a.heap[i].due <= a.heap[child].due {
			return
		}
		a.swap(i, child)
		i = child
	}
}

func (a *agenda) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].index, a.heap[j].index = int32(i), int32(j)
}
