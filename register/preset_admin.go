package register

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// adminInstance is the instance to register with Spring Boot Admin, as its own client sends
// it, https://docs.spring-boot-admin.com.
func adminInstance(e *Entry) map[string]any {
	instance := map[string]any{
		"name": e.Service, "healthUrl": e.Health,
		"metadata": e.metadata(map[string]string{"tags": e.tags()}),
	}
	if management, cut := strings.CutSuffix(e.Health, "/health"); cut { // where the actuator has its health
		instance["managementUrl"] = management
	}
	if e.Address != "" && e.Port != 0 {
		instance["serviceUrl"] = fmt.Sprintf("%s://%s/", e.scheme(), net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
	}
	return with(e.Extra, instance)
}

// adminNames has the ID that the server derives from the health URL, unless it is
// configured otherwise: a run that was killed before the answer can deregister all the same.
func adminNames(e *Entry) map[string]string {
	health, _ := adminInstance(e)["healthUrl"].(string)
	sum := sha1.Sum([]byte(health))
	return map[string]string{"instance": hex.EncodeToString(sum[:])[:12]}
}
