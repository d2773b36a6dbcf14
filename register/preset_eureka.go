package register

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// eurekaInstance is the instance to register with Eureka,
// https://github.com/Netflix/eureka/wiki/Eureka-REST-operations. It bears no time: Eureka takes that of the request's
// arrival, and the later of two is the one that counts.
func eurekaInstance(e *Entry) any {
	// Eureka writes an application's name in capitals, and refuses a path that names another one. Clients find it by
	// the virtual address, which Spring Cloud writes as the user does.
	instance := map[string]any{
		"instanceId": e.ID, "app": strings.ToUpper(e.Service), "vipAddress": e.Service, "secureVipAddress": e.Service,
		"hostName": e.Address, "ipAddr": e.Address, "status": "UP",
		"port":       eurekaPort(e.Port, !e.Secure && e.Port != 0, 80),
		"securePort": eurekaPort(e.Port, e.Secure && e.Port != 0, 443),
		"dataCenterInfo": map[string]any{
			"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn",
		},
		"metadata": e.metadata(map[string]string{"tags": e.tags()}),
	}
	if e.Port != 0 {
		instance["homePageUrl"] = fmt.Sprintf("%s://%s/", e.scheme(), net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
	}
	if strings.HasPrefix(e.Health, "https:") {
		instance["secureHealthCheckUrl"] = e.Health
	} else {
		instance["healthCheckUrl"] = e.Health
	}
	if held(e) {
		instance["leaseInfo"] = map[string]any{"renewalIntervalInSecs": seconds(e.TTL / 3), "durationInSecs": seconds(e.TTL)}
	}
	return map[string]any{"instance": with(e.Extra, instance)}
}

// eurekaPort is a port in the form that Eureka wants. A registration has both kinds, since
// Eureka assumes an open plain port otherwise.
func eurekaPort(port int, enabled bool, otherwise int) any {
	if !enabled {
		port = otherwise
	}
	return map[string]any{"$": port, "@enabled": strconv.FormatBool(enabled)}
}
