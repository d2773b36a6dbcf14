package podinfo

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// untold clears what the machine that runs the tests may have set.
func untold(t *testing.T) {
	t.Helper()
	for _, f := range Fields {
		if f.Variable != "" {
			t.Setenv(f.Variable, "")
		}
	}
	for _, variable := range singular {
		t.Setenv(variable, "")
	}
}

func TestReadVariables(t *testing.T) {
	untold(t)
	for name, value := range map[string]string{
		"POD_NAME": "web-2", "POD_NAMESPACE": "shop", "POD_UID": "u", "NODE_NAME": "n1", "POD_SERVICE_ACCOUNT": "web",
		"POD_IPS": "10.0.0.7,fd00::7", "HOST_IP": "10.0.0.1", "CPU_LIMIT": "1500m", "MEMORY_LIMIT": "1Gi", "CPU_REQUEST": "1", "MEMORY_REQUEST": "134217728",
	} {
		t.Setenv(name, value)
	}
	got, err := Source{}.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := Pod{
		Name: "web-2", Namespace: "shop", UID: "u", Node: "n1", ServiceAccount: "web",
		IPs:      []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")},
		HostIPs:  []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Limits:   Resources{1.5, 1 << 30},
		Requests: Resources{1, 128 << 20},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Read() =\n%+v, want\n%+v", got, want)
	}
}

func TestReadVolume(t *testing.T) {
	untold(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"labels":      "app=\"web\"\nstatefulset.kubernetes.io/pod-name=\"web-1\"",
		"annotations": "build=\"two\"\nnote=\"a \\\"quoted\\\"\\nline\"\n",
		"cpu_limit":   "2", "mem_limit": "64Mi", "namespace": "shop",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("POD_NAMESPACE", "told")
	got, err := Source{Dir: dir}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["statefulset.kubernetes.io/pod-name"] != "web-1" || got.Annotations["note"] != "a \"quoted\"\nline" || got.Limits != (Resources{2, 64 << 20}) {
		t.Errorf("Read() = %+v", got)
	}
	if got.Namespace != "told" {
		t.Errorf("namespace %q: a variable wins", got.Namespace)
	}
}

func TestReadWhatIsWrong(t *testing.T) {
	for variable, want := range map[string]string{"POD_IPS": "$POD_IPS: want addresses", "CPU_LIMIT": "$CPU_LIMIT: want a quantity"} {
		untold(t)
		t.Setenv(variable, "x")
		if _, err := (Source{}).Read(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s=x: %v, want %s…", variable, err, want)
		}
	}
	untold(t)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "labels"), []byte("app=web\n"), 0o644)
	if _, err := (Source{Dir: dir}).Read(); err == nil || !strings.Contains(err.Error(), "labels: line 1") {
		t.Errorf("a label without quotes: %v", err)
	}
}

func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.5": 0.5, "500m": 0.5, "1Ki": 1024, "2Gi": 2 << 30, "1e3": 1000, "3k": 3000, "1E": 1e18} {
		if got, err := parseQuantity(text); err != nil || got != want {
			t.Errorf("parseQuantity(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "x", "-1", "1Q", "1mi", "NaN", "Inf", "1 Gi"} {
		if got, err := parseQuantity(text); err == nil {
			t.Errorf("parseQuantity(%q) = %v, want an error", text, got)
		}
	}
}

func TestCgroup(t *testing.T) {
	for _, c := range []struct {
		files  map[string]string
		cpu    float64
		memory int64
	}{
		{map[string]string{"cpu.max": "150000 100000\n", "memory.max": "1048576\n"}, 1.5, 1 << 20},
		{map[string]string{"cpu.max": "max 100000\n", "memory.max": "max\n"}, 0, 0},
		{map[string]string{"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n", "memory/memory.limit_in_bytes": "2097152\n"}, 0.5, 2 << 20},
		{map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0, 0},
		{map[string]string{"memory/memory.limit_in_bytes": "9223372036854710272\n"}, 0, 0}, // pages of 64 KiB
		{map[string]string{"cpu.max": "100000 0\n"}, 0, 0},
		{map[string]string{"cpu/cpu.cfs_quota_us": "50000\n"}, 0, 0},
		{map[string]string{"cpu/cpu.cfs_period_us": "100000\n"}, 0, 0},
		{nil, 0, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
			os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
		}
		if cpu, memory := cgroupCPU(root), cgroupMemory(root); cpu != c.cpu || memory != c.memory {
			t.Errorf("%v: %v cores, %d bytes, want %v and %d", c.files, cpu, memory, c.cpu, c.memory)
		}
	}
}

// TestReadOneMoment pins that files are read of one moment, while the kubelet changes the volume.
func TestReadOneMoment(t *testing.T) {
	untold(t)
	dir := t.TempDir()
	for moment, namespace := range map[string]string{"..1": "old", "..2": "new"} {
		os.Mkdir(filepath.Join(dir, moment), 0o755)
		os.WriteFile(filepath.Join(dir, moment, "namespace"), []byte(namespace), 0o644)
	}
	os.Symlink("..1", filepath.Join(dir, "..data"))
	os.WriteFile(filepath.Join(dir, "namespace"), []byte("beside"), 0o644)
	if p, err := (Source{Dir: dir}).Read(); err != nil || p.Namespace != "old" {
		t.Errorf("namespace %q, %v", p.Namespace, err)
	}
}

func TestVariablesOfOtherNames(t *testing.T) {
	untold(t)
	t.Setenv("MY_IP", "10.0.0.9")
	t.Setenv("POD_IP", "10.0.0.7")
	s := Source{Variables: map[string]string{}}
	for _, text := range []string{"ip=MY_IP", "host-ip=NOT_SET", "ServiceAccount=SA", "limits.cpu=L"} {
		field, variable, err := ParseVariable(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s.Variables[field] = variable
	}
	p, err := s.Read()
	if err != nil || len(p.IPs) != 1 || p.IPs[0].String() != "10.0.0.9" || p.HostIPs != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"", "ip", "ip=", "=X", "port=X"} {
		if _, _, err := ParseVariable(text); err == nil {
			t.Errorf("ParseVariable(%q): no error", text)
		}
	}
}

// TestStanza pins that each field's stanza is there, and that of an address names the variable that most manifests set.
func TestStanza(t *testing.T) {
	for _, f := range Fields {
		if text := (Source{}).Stanza(f.Name); !strings.Contains(text, strings.TrimSuffix(f.Path, "s")) {
			t.Errorf("%s: %s", f.Name, text)
		}
	}
	if got, want := (Source{}).Stanza("IPs"), "env:\n- name: POD_IP\n  valueFrom:\n    fieldRef: {fieldPath: status.podIP}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	own := Source{Variables: map[string]string{"IPs": "MY_IP"}}
	if got := own.Stanza("IPs"); !strings.Contains(got, "name: MY_IP") {
		t.Errorf("of another name: %s", got)
	}
}
