package remote

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/secret"
)

// addCookies adds the cookies of the file that match the request's URL to those that it has, and returns their values.
func (h HTTP) addCookies(req *http.Request) (secrets []string, err error) {
	if h.CookieFile == "" {
		return nil, nil
	}
	text, err := secret.Read(h.CookieFile)
	if err != nil {
		return nil, err
	}
	var pairs []string
	if has := req.Header.Get("Cookie"); has != "" {
		pairs = append(pairs, has)
	}
	for _, c := range cookiesFor(parseCookies(text), req.URL, time.Now()) {
		pairs = append(pairs, c.name+"="+c.value)
		if len(c.value) >= secret.Likely {
			secrets = append(secrets, c.value)
		}
	}
	if len(pairs) > 0 {
		req.Header.Set("Cookie", strings.Join(pairs, "; "))
	}
	return secrets, nil
}

// cookie is one line of a cookie file.
type cookie struct {
	domain     string // in lower case, without a dot in front; "" for any
	subdomains bool
	path       string
	secure     bool
	expires    time.Time // zero for never
	name       string
	value      string
}

// parseCookies parses a cookie file in the format of Netscape, curl and git config http.cookieFile: lines of domain,
// subdomains, path, secure, expires, name and value, separated by tabs, or Set-Cookie headers. Like curl, it skips
// lines that it cannot parse.
func parseCookies(text string) []cookie {
	var cookies []cookie
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		c, ok := parseCookie(line)
		if ok && valid(c.name+c.value) && c.name != "" {
			cookies = append(cookies, c)
		}
	}
	return cookies
}

func parseCookie(line string) (c cookie, ok bool) {
	if name, value, found := strings.Cut(line, ":"); found && strings.EqualFold(name, "Set-Cookie") {
		return parseSetCookie(strings.TrimSpace(value))
	}
	line = strings.TrimPrefix(line, "#HttpOnly_") // hidden from scripts, of which there are none here
	if strings.HasPrefix(line, "#") {
		return c, false
	}
	fields := strings.Split(line, "\t")
	if len(fields) == 6 {
		fields = append(fields, "") // curl omits an empty value
	}
	if len(fields) != 7 {
		return c, false
	}
	c = cookie{domain: domainOf(fields[0]), path: fields[2], name: fields[5], value: fields[6]}
	c.subdomains, c.secure = strings.EqualFold(fields[1], "TRUE"), strings.EqualFold(fields[3], "TRUE")
	seconds, err := strconv.ParseInt(fields[4], 10, 64)
	if seconds != 0 {
		c.expires = time.Unix(seconds, 0)
	}
	return c, err == nil && c.domain != ""
}

func parseSetCookie(text string) (c cookie, ok bool) {
	parsed, err := http.ParseSetCookie(text)
	if err != nil {
		return c, false
	}
	c = cookie{domain: domainOf(parsed.Domain), path: parsed.Path, secure: parsed.Secure, expires: parsed.Expires, name: parsed.Name, value: parsed.Value}
	c.subdomains = c.domain != ""
	if parsed.Quoted {
		c.value = `"` + c.value + `"`
	}
	return c, true
}

func domainOf(s string) string { return strings.ToLower(strings.TrimPrefix(s, ".")) }

// valid reports whether s can be part of a Cookie header.
func valid(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ';' })
}

// cookiesFor returns the cookies that match u, those with the longest paths first (RFC 6265, section 5.4).
func cookiesFor(cookies []cookie, u *url.URL, now time.Time) []cookie {
	host, path := strings.ToLower(u.Hostname()), u.Path
	if path == "" {
		path = "/"
	}
	var found []cookie
	for _, c := range cookies {
		if c.forHost(host) && c.forPath(path) && (!c.secure || u.Scheme == "https") && (c.expires.IsZero() || now.Before(c.expires)) {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b cookie) int { return len(b.path) - len(a.path) })
	return found
}

func (c cookie) forHost(host string) bool {
	if c.domain == "" || c.domain == host {
		return true
	}
	return c.subdomains && net.ParseIP(host) == nil && strings.HasSuffix(host, "."+c.domain)
}

// forPath implements RFC 6265, section 5.1.4.
func (c cookie) forPath(path string) bool {
	rest, ok := strings.CutPrefix(path, c.path)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(c.path, "/"))
}
