package resolver

import (
	"os"
	"testing"

	"initbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
