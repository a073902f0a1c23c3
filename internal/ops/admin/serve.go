package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout is how long a client may take to send the header of a request.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes limits the header of a request.
	maxHeaderBytes = 64 << 10
	// shutdownTimeout is how long requests under way may take when the bot ends.
	shutdownTimeout = 2 * time.Second
	// maxConnections is how many connections are open at once: half of the 1,024 descriptors that a process often may
	// have, so that the store, tools and feeds go on working.
	maxConnections = 512
)

// Serve serves HTTP on a listener until ctx ends, then lets requests finish for a moment.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limited := newListener(l, maxConnections, s.o.Log)
	handler := s.Handler()
	if s.o.Wrap != nil {
		handler = s.o.Wrap(handler)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		// The whole request, body included; see readBody for the requests that have arrived.
		ReadTimeout:    bodyTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withConnection,
		ConnState:      limited.note,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(limited) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	<-done
	return nil
}
