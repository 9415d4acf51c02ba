//go:build unix

package runtime

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/runtime/provider"
)

// TestProvidersReadWhatTheyMayAndNothingElse: every access outside is the same error, whether the target
// is there or not; links are followed before the check.
func TestProvidersReadWhatTheyMayAndNothingElse(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, d := range []string{"in/sub", "out/deep", "secret"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"in/a.properties": "in", "in/sub/b.properties": "b", "out/x.properties": "out", "out/deep/y": "deep", "in/worker.properties": "own", "secret/only.properties": "only"} {
		if err := os.WriteFile(at(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"in/link": "a.properties", "in/abslink": at("in/a.properties"), "in/dirlink": "sub", "in/there": at("out/x.properties"), "in/nowhere": at("out/nothing"),
		"in/outdir": "../out", "in/up": "..", "in/loop": "loop", "in/chain": "outdir/x.properties", "in/back": "../out/../in/a.properties", "root": "in",
		"in/ownlink": "worker.properties",
	} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(at("in/worker.properties"), at("in/hardlink")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("in/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := NewFileRoots([]string{at("root")}, []string{at("in/worker.properties")})
	if err != nil {
		t.Fatal(err)
	}
	var outside *provider.OutsideError
	for _, row := range []struct {
		name, path string
		roots      []string
		want       string // content; "" where it is outside; another error where it begins with !
	}{
		{"a file in the root", at("in/a.properties"), nil, "in"},
		{"by the root's own link", at("root/a.properties"), nil, "in"},
		{"in a folder below", at("in/sub/b.properties"), nil, "b"},
		{"by a link", at("in/link"), nil, "in"},
		{"by an absolute link", at("in/abslink"), nil, "in"},
		{"through a link to a folder", at("in/dirlink/b.properties"), nil, "b"},
		{"up and down inside", at("in/sub") + "/../a.properties", nil, "in"},
		{"one that is not there", at("in/none"), nil, "!no such file"},
		{"outside", at("out/x.properties"), nil, ""},
		{"outside and not there", at("out/nothing"), nil, ""},
		{"outside by ..", at("in") + "/../out/x.properties", nil, ""},
		{"outside by .. and not there", at("in") + "/../out/nothing", nil, ""},
		{"a link to what is outside", at("in/there"), nil, ""},
		{"a link to what is outside and not there", at("in/nowhere"), nil, ""},
		{"through a link to a folder outside", at("in/outdir/x.properties"), nil, ""},
		{"through a link to a folder outside, not there", at("in/outdir/nothing/deeper"), nil, ""},
		{"through a link that goes up", at("in/up/out/x.properties"), nil, ""},
		{"links behind links", at("in/chain"), nil, ""},
		{"out and in again", at("in/back"), nil, ""},
		{"a link to itself", at("in/loop"), nil, "!too many links"},
		{"a folder whose name begins alike", at("in") + "side/x", nil, ""},
		{"the worker's own file", at("in/worker.properties"), nil, ""},
		{"the worker's own file by a link", at("in/ownlink"), nil, ""},
		{"the worker's own file by another name", at("in/hardlink"), nil, ""},
		{"a pipe", at("in/pipe"), nil, "!no regular file"},
		{"a folder", at("in/sub"), nil, "!no regular file"},
		{"a device", "/dev/null", nil, ""},
		{"a device, allowed", "/dev/null", []string{"/dev"}, "!no regular file"},
		{"another process's files", "/proc/self/environ", nil, ""},
		{"a path with a zero byte", at("in/a.properties") + "\x00.txt", nil, ""},
		{"nothing", "", nil, ""},
		{"roots of the provider's own", at("secret/only.properties"), []string{at("secret")}, "only"},
		{"a file as a root", at("secret/only.properties"), []string{at("secret/only.properties")}, "only"},
		{"with roots of its own the worker's count no more", at("in/a.properties"), []string{at("secret")}, ""},
		{"the worker's own file stays closed", at("in/worker.properties"), []string{at("in")}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			f, err := files.Open(row.path, row.roots)
			switch {
			case row.want == "":
				if !errors.As(err, &outside) {
					t.Fatalf("error %v, want the one for what is outside", err)
				}
				if text := strings.Replace(err.Error(), row.path, "PATH", 1); text != (&provider.OutsideError{Path: "PATH"}).Error() {
					t.Errorf("it says %q", err)
				}
			case strings.HasPrefix(row.want, "!"):
				if err == nil || errors.As(err, &outside) || !strings.Contains(err.Error(), row.want[1:]) {
					t.Errorf("error %v, want %q", err, row.want)
				}
			default:
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if b, err := io.ReadAll(f); err != nil || string(b) != row.want {
					t.Errorf("%q %v, want %q", b, err, row.want)
				}
			}
		})
	}
}

// TestSecurityCaseOfProviders is the case as it is written: through the providers themselves.
func TestSecurityCaseOfProviders(t *testing.T) {
	dir := t.TempDir()
	allowed := filepath.Join(dir, "allowed")
	if err := os.MkdirAll(allowed, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(dir, "outside.properties"): "k=secret\n", filepath.Join(dir, "x"): "secret", filepath.Join(allowed, "in.properties"): "k=v\nvar=${file:" + filepath.Join(dir, "outside.properties") + ":k}\n", filepath.Join(allowed, "token"): "tok\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside.properties"), filepath.Join(allowed, "link-to-outside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "missing"), filepath.Join(allowed, "link-to-missing")); err != nil {
		t.Fatal(err)
	}
	files, err := NewFileRoots([]string{"/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := NewPlugins(provider.File, provider.Directory, provider.Env)
	if err != nil {
		t.Fatal(err)
	}
	set, _, errs := provider.Open(plugins.Providers, map[string]string{
		"config.providers": "file,directory", "config.providers.file.class": "file", "config.providers.file.param.allowed.paths": allowed,
		"config.providers.directory.class": "directory", "config.providers.directory.param.allowed.paths": allowed,
	}, provider.Context{Files: files})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	said := map[string]bool{}
	for _, text := range []string{
		"${file:" + allowed + "/../outside.properties:k}", "${file:" + allowed + "/../missing.properties:k}", "${file:" + allowed + "/link-to-outside:k}",
		"${file:" + allowed + "/link-to-missing:k}", "${file:/etc/passwd:root}", "${file:/dev/zero:k}", "${file:/no/such:k}",
		"${directory:" + allowed + ":../x}", "${directory:" + allowed + ":../missing}", "${directory:" + dir + ":x}", "${directory:/dev:zero}",
	} {
		r, errs := set.Resolve(t.Context(), map[string]string{"topic": text})
		if len(errs) != 1 || errs[0].Key != "topic" {
			t.Fatalf("%s: %q %v, want an error", text, r.Values["topic"], errs)
		}
		_, after, _ := strings.Cut(errs[0].Reason, " lies outside ")
		said[after] = true
	}
	if len(said) != 1 || said[""] {
		t.Errorf("different errors for what is outside: %v", said)
	}
	for text, want := range map[string]string{
		"${file:" + allowed + "/in.properties:k}": "v", "${directory:" + allowed + ":token}": "tok\n", "${directory:" + allowed + ":none}": "${directory:" + allowed + ":none}",
		"${file:" + allowed + "/in.properties:var}": "${file:" + filepath.Join(dir, "outside.properties") + ":k}", // a variable in a value is text
		"${env:PATH}": "${env:PATH}", // no such provider
	} {
		if r, errs := set.Resolve(t.Context(), map[string]string{"topic": text}); len(errs) > 0 || r.Values["topic"] != want {
			t.Errorf("%s: %q %v, want %q", text, r.Values["topic"], errs, want)
		}
	}
	if none, _, errs := provider.Open(plugins.Providers, map[string]string{}, provider.Context{Files: files}); len(errs) > 0 {
		t.Error(errs)
	} else if r, _ := none.Resolve(t.Context(), map[string]string{"topic": "${file:" + allowed + "/in.properties:k}"}); !provider.HasVariables(r.Values["topic"]) {
		t.Error("a provider is there by itself")
	}
}
