package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Files are the PEM files of one end of TLS connections, and the settings that
// name them, for errors. Settings may be empty.
type Files struct {
	// CA holds the authorities of which one must have signed what the other end
	// shows. Without it a client trusts those of the system, and a server asks
	// for nothing.
	CA, CASetting string

	// Cert and Key hold what this end shows: a certificate, then those that lead
	// to its authority, and the key of the first. A client may have none.
	Cert, CertSetting string
	Key, KeySetting   string
}

// Loaded is what files hold. It does not change.
type Loaded struct {
	// Authorities are those of the file; nil: there is no such file.
	Authorities *x509.CertPool

	// Shown is what this end shows: one, or none.
	Shown []tls.Certificate

	texts texts
}

// texts are the files as they are, nil where there is none.
type texts struct{ ca, cert, key []byte }

func (t *texts) equal(other *texts) bool {
	return bytes.Equal(t.ca, other.ca) && bytes.Equal(t.cert, other.cert) && bytes.Equal(t.key, other.key)
}

// Load reads the files once.
func (f *Files) Load() (*Loaded, error) {
	t, err := f.read()
	if err != nil {
		return nil, err
	}
	return f.parse(t)
}

func (f *Files) read() (texts, error) {
	var t texts
	for _, file := range [...]struct {
		setting, path string
		to            *[]byte
	}{{f.CertSetting, f.Cert, &t.cert}, {f.KeySetting, f.Key, &t.key}, {f.CASetting, f.CA, &t.ca}} {
		if file.path == "" {
			continue
		}
		text, err := readFile(file.path)
		if err != nil {
			return t, fault(file.setting, "%s: %w", file.path, reason(err))
		}
		*file.to = text
	}
	return t, nil
}

// maxSize is how long a file may be, in bytes: those with all authorities of the
// world have a quarter of a megabyte.
const maxSize = 8 << 20

// readFile reads a file that is one: of a pipe nobody knows when anything comes,
// and a connection would wait for it; a device may have no end.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, errors.New("is no regular file")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if len(text) > maxSize {
		return nil, fmt.Errorf("has more than %d bytes", maxSize)
	}
	return text, err
}

// parse makes sense of the files.
func (f *Files) parse(t texts) (*Loaded, error) {
	l := &Loaded{texts: t}
	if (f.Cert == "") != (f.Key == "") {
		return nil, fault(join(f.CertSetting, f.KeySetting), "a certificate and its key go together; set both or none")
	}
	if f.Cert != "" {
		if err := whole(t.cert); err != nil {
			return nil, fault(f.CertSetting, "%s %w", f.Cert, err)
		}
		pair, err := tls.X509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fault(join(f.CertSetting, f.KeySetting), "%s and %s are no certificate and its key in PEM form: %w", f.Cert, f.Key, err)
		}
		l.Shown = []tls.Certificate{pair}
	}
	if f.CA == "" {
		return l, nil
	}
	if err := whole(t.ca); err != nil {
		return nil, fault(f.CASetting, "%s %w", f.CA, err)
	}
	l.Authorities = x509.NewCertPool()
	if !l.Authorities.AppendCertsFromPEM(t.ca) {
		return nil, fault(f.CASetting, "%s holds no certificate in PEM form", f.CA)
	}
	return l, nil
}

// whole finds that a file breaks off within a certificate, since it is being
// written: those that are whole would pass for all that there are. Comments may
// stand before, between and behind certificates.
func whole(text []byte) error {
	begun, rest := bytes.Count(text, []byte("-----BEGIN ")), text
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		begun, rest = begun-1, after
	}
	last := rest[bytes.LastIndexByte(rest, '\n')+1:]
	if begun != 0 || len(last) > 0 && last[0] == '-' {
		return errors.New("breaks off: a block in PEM form has no end")
	}
	return nil
}

// fault is an error that begins with a setting, if that has a name.
func fault(setting, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if setting == "" {
		return err
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// join names two settings, or the one that there is.
func join(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + ", " + second
}

// reason is the error without the path, which the message has already.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
