package register

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/lazy"
	"initbox/internal/tlsconfig"
	"initbox/register/exchange"
)

// Server says where a registry is, with which credentials. It names files with secrets and holds none itself.
type Server struct {
	URL         string                 `json:"url"` // may refer to secrets: ${file:/PATH}, ${env:NAME}
	Credentials httpclient.Credentials `json:"credentials"`
	TLS         tlsconfig.Options      `json:"tls"`
	NoProxy     bool                   `json:"noProxy,omitempty"`
}

// Protocol is the name of a [Preset], or a [Custom] protocol.
type Protocol struct {
	Preset string  `json:"preset,omitempty"`
	Custom *Custom `json:"custom,omitempty"`
}

// Custom is the protocol of a server without a preset. Its URLs are absolute or paths below the server's, and may refer
// in braces to the answer to the registration: by a JSON Pointer as in {/id}, or the name of a header as in {Location}.
type Custom struct {
	Method string         `json:"method"` // of the registration
	Body   *exchange.Body `json:"-"`      // nil for none; not stored, since it may be secret

	CheckURL         string `json:"checkURL,omitempty"`     // GET returns 2xx for a registered entry, 404 or 410 for none; "" if the server cannot be asked
	HeartbeatURL     string `json:"heartbeatURL,omitempty"` // "" for CheckURL
	HeartbeatMethod  string `json:"heartbeatMethod,omitempty"`
	DeregisterURL    string `json:"deregisterURL,omitempty"` // "" if there is no way to deregister
	DeregisterMethod string `json:"deregisterMethod,omitempty"`
}

// preset returns the calls of the protocol, or nil if there is no such preset.
func (p Protocol) preset() *Preset {
	if p.Custom != nil {
		return p.Custom.preset()
	}
	return PresetOf(p.Preset)
}

// PresetOf returns the preset of that name, or nil.
func PresetOf(name string) *Preset {
	for _, p := range Presets() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// defaultHeartbeat is the time between two heartbeats to a server without a preset.
const defaultHeartbeat = 10 * time.Second

func (c *Custom) preset() *Preset {
	p := &Preset{Name: "custom", beatEvery: func(*Entry) time.Duration { return defaultHeartbeat }}
	announcement := call{method: c.Method, raw: c.Body, keep: map[string]string{}}
	if exchange.QueryOnly(c.Method) && c.Body != nil && c.Body.Type == exchange.FormType {
		announcement.query, announcement.raw = string(c.Body.Content), nil
	}
	for _, address := range []string{c.CheckURL, c.HeartbeatURL, c.DeregisterURL} {
		for _, name := range inBraces().FindAllStringSubmatch(address, -1) {
			announcement.keep[name[1]] = name[1]
		}
	}
	p.register = []call{announcement}
	if c.CheckURL != "" {
		p.ask = &call{method: "GET", path: c.CheckURL}
	}
	if c.HeartbeatURL != "" {
		p.beat = &call{method: cmp.Or(c.HeartbeatMethod, "PUT"), path: c.HeartbeatURL}
	}
	if c.DeregisterURL != "" {
		p.leave = []call{{method: cmp.Or(c.DeregisterMethod, "DELETE"), path: c.DeregisterURL}}
	}
	return p
}

// check says what is wrong with the URLs.
func (c *Custom) check() error {
	if c == nil {
		return nil
	}
	for _, address := range []string{c.CheckURL, c.HeartbeatURL, c.DeregisterURL} {
		if strings.Contains(address, "${") {
			return errors.New("only --url may refer to secrets; give others in a header, from --header-file or --token-file")
		}
		for _, name := range inBraces().FindAllStringSubmatch(address, -1) {
			if !strings.HasPrefix(name[1], "/") && (name[1] == "" || strings.ContainsAny(name[1], " /:")) {
				return fmt.Errorf("%s: want a JSON Pointer in braces, as in {/id}, or the name of a header, as in {Location}", address)
			}
		}
		if _, err := url.Parse(inBraces().ReplaceAllString(address, "x")); err != nil {
			return fmt.Errorf("%s: want a URL, or a path on the server", address)
		}
	}
	return nil
}

var inBraces = lazy.Regexp(`\{([^{}]*)\}`)
