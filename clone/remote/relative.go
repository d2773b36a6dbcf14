package remote

import (
	"errors"
	"net/url"
	"path"
	"strings"

	"initbox/internal/secret"
)

// Resolve parses the URL of a submodule of the repository at u. A URL that begins with ./ or ../ is relative to u, as
// in git-submodule(1). URLs in a repository are not trusted: they cannot refer to secrets, nor to a directory on this
// machine unless u is one.
func (u *URL) Resolve(text string) (*URL, error) {
	if text == "." || text == ".." || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") {
		return u.relative(text)
	}
	v, err := parse(text)
	if err != nil {
		return nil, err
	}
	if v == nil {
		if strings.Contains(text, "${") {
			return nil, errors.New("the URL contains ${…}, but a repository cannot refer to secrets")
		}
		return parseWeb(text, nil)
	}
	if v.Scheme == "file" && u.Scheme != "file" {
		return nil, errors.New("the URL is a directory on this machine, which a repository on a server cannot refer to")
	}
	return v, nil
}

// relative resolves a text that begins with ./ or ../.
func (u *URL) relative(text string) (*URL, error) {
	if len(text) > maxURL || hasControl(text) || u.web != nil && u.web.In(unescape(text)) {
		return nil, errors.New("the relative URL is too long or contains control characters")
	}
	if u.web == nil {
		return u.relativePath(text)
	}
	base, err := climb(u.web.EscapedPath(), text)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(text, "?#@\\") {
		return nil, errors.New("the relative URL contains one of ?, #, @ and \\")
	}
	web := *u.web.URL
	web.Path, web.RawPath, web.RawQuery, web.ForceQuery = base, "", "", false
	if decoded, err := url.PathUnescape(base); err == nil {
		web.Path, web.RawPath = decoded, base
	}
	return ofWeb(&secret.URL{URL: &web, Refs: u.web.Refs})
}

// relativePath is relative for URLs other than those of HTTP servers.
func (u *URL) relativePath(text string) (*URL, error) {
	base := u.Path
	if !u.scp && !strings.HasPrefix(base, "/") {
		base = "/" + base // ssh://HOST/~user/repo
	}
	name, err := climb(base, text)
	if err != nil {
		return nil, err
	}
	v := *u
	v.Path = name
	if v.Scheme == "file" {
		v.Path = path.Clean(name)
		return &v, nil
	}
	return v.finish()
}

// climb goes from the directory base by the ./ and ../ at the beginning of text, and then down to the rest of it.
func climb(base, text string) (string, error) {
	rooted, atHome := strings.HasPrefix(base, "/"), false
	base = strings.TrimRight(base, "/")
	for {
		step, rest, _ := strings.Cut(text, "/")
		switch step {
		case "..":
			cut := strings.LastIndexByte(base, '/')
			if atHome || base == "" {
				return "", errors.New("the relative URL leads above the root of the server")
			}
			atHome = cut < 0 // HOST:repo, which is in a directory without a name
			base = base[:max(cut, 0)]
		case ".":
		default:
			name := strings.TrimRight(base+"/"+text, "/")
			if !rooted && base == "" {
				name = name[min(len(name), 1):]
			}
			if name == "" {
				return "", errNoPath
			}
			return name, nil
		}
		text = rest
	}
}
