package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisLoginFiles are files that hold passwords, in place of those in
// [RedisServer]. They are read again for each new connection, so that a new
// password is in use without a restart. While a file cannot be read, or is
// empty, the last password that it held stays in use. The zero value is no
// files.
type RedisLoginFiles struct {
	// Redis and Sentinel are the paths: for Redis, and for the sentinels
	// themselves. Empty is none.
	Redis, Sentinel string

	// WithUser says that the files may hold user:password; the user goes before
	// that of RedisServer. Without it all that they hold is the password.
	WithUser bool
}

// apply has connections log in with what the files hold. An error says that a
// file holds no password now.
func (f RedisLoginFiles) apply(u *redis.UniversalOptions, log *slog.Logger) error {
	if f.Redis == "" {
		return nil
	}
	file, err := openLoginFile(f.Redis, u.Username, f.WithUser, log)
	if err != nil {
		return err
	}
	u.CredentialsProviderContext = file.login
	return nil
}

// newFailoverClient returns the client of a master that sentinels watch.
func (f RedisLoginFiles) newFailoverClient(o *redis.FailoverOptions, log *slog.Logger) (redis.UniversalClient, error) {
	if f.Sentinel == "" {
		return redis.NewFailoverClient(o), nil
	}
	file, err := openLoginFile(f.Sentinel, o.SentinelUsername, f.WithUser, log)
	if err != nil {
		return nil, err
	}
	o.SentinelUsername, o.SentinelPassword = "", ""
	client := redis.NewFailoverClient(o)
	// The client has taken its copy of these options. What they say from here on
	// is for connections to sentinels alone, none of which is made before the
	// client is used.
	o.OnConnect = file.authenticate
	return client, nil
}

// loginFile is a file that holds a password. It is safe for concurrent use.
type loginFile struct {
	path     string
	user     string // unless the file holds one
	withUser bool
	log      *slog.Logger

	mu      sync.Mutex // protects what follows
	text    string     // what the file held when it was last good
	failing bool       // it is not good now, which has been logged
}

// openLoginFile reads a file for the first time.
func openLoginFile(path, user string, withUser bool, log *slog.Logger) (*loginFile, error) {
	f := &loginFile{path: path, user: user, withUser: withUser, log: log.With("file", path)}
	var err error
	if f.text, err = readLogin(path, loginFirst); err != nil {
		return nil, fmt.Errorf("read the password: %w", err)
	}
	return f, nil
}

// maxLogin is how many bytes of a file are read; no password is as long.
const maxLogin = 64 << 10

// How long a password may take to come out of a pipe: at the start, and later, when
// requests wait for it.
const (
	loginFirst    = 5 * time.Second
	loginPatience = 100 * time.Millisecond
)

// readLogin reads a file without the end of its line. It does not wait for somebody
// to open a named pipe, and only so long for what is written to one.
func readLogin(path string, patience time.Duration) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	_ = file.SetReadDeadline(time.Now().Add(patience)) // a file on a disk has none, and needs none
	bytes, err := io.ReadAll(io.LimitReader(file, maxLogin+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(bytes), "\r\n")
	switch {
	case len(bytes) > maxLogin:
		return "", fmt.Errorf("%s: %w", path, errNoLogin)
	case text == "":
		return "", fmt.Errorf("%s: %w", path, errNoPassword)
	}
	return text, nil
}

var (
	errNoPassword = errors.New("the file is empty")
	errNoLogin    = fmt.Errorf("the file has more than %d bytes", maxLogin)
)

// login returns as whom to log in now. It is for go-redis, and never fails.
func (f *loginFile) login(context.Context) (user, password string, err error) {
	text, err := readLogin(f.path, loginPatience)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && !f.failing:
		f.log.Warn("no password for Redis in its file; the last one stays in use", "reason", err)
	case err == nil && f.text != text:
		f.log.Info("a new password for Redis")
	case err == nil && f.failing:
		f.log.Info("the password for Redis is in its file again")
	}
	if f.failing = err != nil; !f.failing {
		f.text = text
	}
	if user, password, found := strings.Cut(f.text, ":"); found && f.withUser {
		return user, password, nil
	}
	return f.user, f.text, nil
}

// authenticate logs a connection in that is not yet.
func (f *loginFile) authenticate(ctx context.Context, conn *redis.Conn) error {
	user, password, err := f.login(ctx)
	if err != nil {
		return err
	}
	if user == "" {
		return conn.Auth(ctx, password).Err()
	}
	return conn.AuthACL(ctx, user, password).Err()
}
