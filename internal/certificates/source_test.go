package certificates

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

func contents(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Rows are what happens to the files; then what is in use, and what the log
// says of it.
func TestLastGoodFilesStay(t *testing.T) {
	a, b := redistest.NewCertificates(t, t.TempDir()), redistest.NewCertificates(t, t.TempDir())
	dir := t.TempDir()
	files := Files{
		CA: filepath.Join(dir, "ca"), CASetting: "ca_file",
		Cert: filepath.Join(dir, "cert"), CertSetting: "cert_file",
		Key: filepath.Join(dir, "key"), KeySetting: "key_file",
	}
	certA, keyA, caA := contents(t, a.ServerCert), contents(t, a.ServerKey), contents(t, a.CA)
	certB, keyB, caB := contents(t, b.ServerCert), contents(t, b.ServerKey), contents(t, b.CA)
	var log bytes.Buffer
	source := NewSource(files, slog.New(slog.NewTextHandler(&log, nil)))
	for _, row := range []struct {
		what          string
		ca, cert, key string // "": the file is gone
		inUse         string // its certificate; "": an error
		says          string // in the log or in the error; "": nothing
	}{
		{"not there yet", "", "", "", "", "cert_file: " + files.Cert + ": no such file or directory"},
		{"the key is missing", caA, certA, "", "", "key_file: " + files.Key + ": no such file or directory"},
		{"no authority", "# none\n", certA, keyA, "", "ca_file: " + files.CA + " holds no certificate in PEM form"},
		{"all is there", caA, certA, keyA, certA, ""},
		{"as before", caA, certA, keyA, certA, ""},
		{"a new certificate with the old key", caA, certB, keyA, certA, "cert_file, key_file: " + files.Cert + " and " + files.Key + " are no certificate and its key in PEM form: tls: private key does not match"},
		{"still so", caA, certB, keyA, certA, ""},
		{"half a certificate", caA, certB[:len(certB)/2], keyB, certA, "cert_file: " + files.Cert + " breaks off"},
		{"the second of two authorities is cut", caA + caB[:len(caB)/2], certB, keyB, certA, "ca_file: " + files.CA + " breaks off"},
		{"the certificate is gone", caA, "", keyB, certA, "no such file"},
		{"all is new", caA + caB, certB, keyB, certB, "new certificates are in use"},
		{"an authority goes", caB, certB, keyB, certB, "new certificates are in use"},
		{"as before", caB, certB, keyB, certB, ""},
	} {
		for path, text := range map[string]string{files.CA: row.ca, files.Cert: row.cert, files.Key: row.key} {
			if put(t, path, text); text == "" {
				_ = os.Remove(path)
			}
		}
		log.Reset()
		loaded, err := source.Current()
		said := log.String()
		if err != nil {
			said = err.Error()
		}
		if (err != nil) != (row.inUse == "") || err == nil && string(loaded.texts.cert) != row.inUse {
			t.Errorf("%s: another certificate is in use, or the error is wrong: %v", row.what, err)
		}
		if !strings.Contains(said, row.says) || row.says == "" && said != "" {
			t.Errorf("%s: said %q, want %q", row.what, said, row.says)
		}
	}
	if got, want := source.Loads(), (Loads{Attempts: 10, Failures: 7, Files: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Wherever a file of two authorities breaks off, it is not taken for one of one
// authority, unless all of the first and nothing of the second is there.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, loop, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	put(t, huge, "")
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:         "is a directory",
		pipe:        "is no regular file",
		"/dev/zero": "is no regular file",
		loop:        "too many levels of symbolic links",
		huge:        "has more than 8388608 bytes",
	} {
		files := Files{CA: path, CASetting: "ca_file"}
		if _, err := files.Load(); text(err) != "ca_file: "+path+": "+want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestFilesThatBreakOff(t *testing.T) {
	first := contents(t, redistest.NewCertificates(t, t.TempDir()).CA)
	second := contents(t, redistest.NewCertificates(t, t.TempDir()).CA)
	for _, between := range []string{"", "\n\n", "# the second authority - of two\n"} {
		text := first + between + second
		for n := range len(text) {
			inSecond := n > len(first+between) && n < len(text)-1
			inFirst := n < len(first)-1
			_, err := (&Files{CA: "ca"}).parse(texts{ca: []byte(text[:n])})
			if (err != nil) != (inFirst || inSecond) {
				t.Fatalf("%d of %d bytes, the first of %d: %v", n, len(text), len(first), err)
			}
		}
	}
}

// FuzzFiles: whatever files hold, they are an error, or what they should be.
func FuzzFiles(f *testing.F) {
	c := redistest.NewCertificates(f, f.TempDir())
	cert, key, ca := contents(f, c.ServerCert), contents(f, c.ServerKey), contents(f, c.CA)
	f.Add(cert, key, ca)
	f.Add(cert+ca, key, ca+cert)
	f.Add(key, cert, "-----BEGIN X-----\n-----END X-----\n")
	f.Add("", "-", "-----BEGIN")
	f.Fuzz(func(t *testing.T, cert, key, ca string) {
		loaded, err := (&Files{CA: "ca", Cert: "cert", Key: "key"}).parse(texts{[]byte(ca), []byte(cert), []byte(key)})
		if err == nil && (loaded.Authorities == nil || len(loaded.Shown) != 1 || len(loaded.Shown[0].Certificate) == 0) {
			t.Errorf("no error, and %+v", loaded)
		}
	})
}

// What has not changed is not parsed for each connection.
func TestUnchangedFilesAreNotParsed(t *testing.T) {
	c := redistest.NewCertificates(t, t.TempDir())
	source := NewSource(Files{CA: c.CA, Cert: c.ServerCert, Key: c.ServerKey}, slog.New(slog.DiscardHandler))
	first, err := source.Current()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := source.Current(); second != first {
		t.Error("parsed again")
	}
}

// A client without files trusts the system, a server without authorities asks
// for nothing.
func TestNoFiles(t *testing.T) {
	loaded, err := NewSource(Files{}, slog.New(slog.DiscardHandler)).Current()
	if err != nil {
		t.Fatal(err)
	}
	if c := loaded.Client("x"); c.RootCAs != nil || len(c.Certificates) != 0 || c.ServerName != "x" {
		t.Errorf("client: %v", c)
	}
	if s := loaded.Server(); s.ClientAuth != tls.NoClientCert {
		t.Errorf("server: %v", s.ClientAuth)
	}
}

func load(t *testing.T, files Files) *Loaded {
	t.Helper()
	loaded, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// A certificate without its key is not passed over.
func TestHalfAPair(t *testing.T) {
	c := redistest.NewCertificates(t, t.TempDir())
	_, err := (&Files{Cert: c.ServerCert, CertSetting: "cert_file", KeySetting: "key_file"}).Load()
	if want := "cert_file, key_file: a certificate and its key go together; set both or none"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Client checks authority and name, AnyName the authority alone; both ends show
// what they have.
func TestBothEnds(t *testing.T) {
	a, b := redistest.NewCertificates(t, t.TempDir()), redistest.NewCertificates(t, t.TempDir())
	server := load(t, Files{CA: a.CA, Cert: a.ServerCert, Key: a.ServerKey}).Server()
	known := load(t, Files{CA: a.CA, Cert: a.ClientCert, Key: a.ClientKey})
	other := load(t, Files{CA: b.CA, Cert: a.ClientCert, Key: a.ClientKey})
	stranger := load(t, Files{CA: a.CA, Cert: b.ClientCert, Key: b.ClientKey})
	for _, row := range []struct {
		what   string
		client *tls.Config
		want   string // in either end's error; "": they talk
	}{
		{"all is right", known.Client("localhost"), ""},
		{"another name", known.Client("other.example"), "not other.example"},
		{"any name", known.AnyName("other.example"), ""},
		{"another authority", other.Client("localhost"), "unknown authority"},
		{"another authority and any name", other.AnyName("localhost"), "unknown authority"},
		{"no certificate", load(t, Files{CA: a.CA}).AnyName("localhost"), "didn't provide a certificate"},
		{"a certificate of another authority", stranger.AnyName("localhost"), "unknown authority"},
	} {
		if said := handshake(t, server, row.client); !strings.Contains(said, row.want) || row.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", row.what, said, row.want)
		}
	}
}

// handshake returns what either end has to say against the other.
func handshake(t *testing.T, server, client *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	said := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			said <- err.Error()
			return
		}
		defer conn.Close()
		said <- text(conn.(*tls.Conn).Handshake())
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err == nil {
		defer conn.Close()
	}
	return text(err) + <-said
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
