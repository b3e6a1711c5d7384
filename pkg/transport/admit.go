package transport

// admit gives a connection a place. Where there is none, the connection that has
// kept a place for the longest without a word of HTTP/2 loses it: who only opens
// connections keeps out nobody. admit reports false if all have spoken, or the
// server was stopped.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if len(s.conns) >= s.options.MaxConnections {
		s.metrics.refusedConns.Inc()
		longest := s.strangers.Front()
		if longest == nil {
			return false
		}
		out := longest.Value.(*conn)
		s.forget(out)
		go out.nc.Close() // who reads it closes the rest
	}
	s.conns[c], c.stranger = struct{}{}, s.strangers.PushBack(c)
	return true
}

// meet notes that a connection's preface has arrived.
func (s *Server) meet(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.know(c)
}

// know takes a connection out of the strangers. mu is held.
func (s *Server) know(c *conn) {
	if c.stranger != nil {
		s.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// forget takes the place of a connection away. mu is held.
func (s *Server) forget(c *conn) {
	s.know(c)
	delete(s.conns, c)
}
