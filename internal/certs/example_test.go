package certs_test

import (
	"fmt"

	"initbox/internal/certs"
)

func ExampleParse() {
	const bundle = `the first, and only one
-----BEGIN CERTIFICATE-----
MIIBVTCB/aADAgECAgEHMAoGCCqGSM49BAMCMBoxGDAWBgNVBAMTD0NvbXBhbnkg
Um9vdCBDQTAgFw0wMTAxMDEwMDAwMDBaGA8yMTIxMDkzMDAwMDAwMFowGjEYMBYG
A1UEAxMPQ29tcGFueSBSb290IENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
UhTqwgSe3UnxJo4K19a0t95QTgngxi1+cajmT9jPmNZJEksxY7NO7yJ1qBfOWYd0
E+H1hz68bs+ze3Pu3bZcUaMyMDAwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQU
rkcxGtZStK/Vn7EALbCxzPGsiucwCgYIKoZIzj0EAwIDRwAwRAIgfTMYmFCCfLWl
e4osquwA0LMcUUX4iXDOV+rFMEO9fU0CICQC29X37PfLFFUUoHbbMZ551YeL8Q5u
wFTytQRvgicK
-----END CERTIFICATE-----
`
	found, err := certs.Parse([]byte(bundle), "/certs/Company.crt", certs.DefaultPassword)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range certs.Distinct(found.Entries) {
		fmt.Println(e.Alias, e.Cert.Subject, e.Cert.IsCA)
	}
	for _, f := range certs.Directory(certs.Distinct(found.Entries)) {
		fmt.Printf("%s %q\n", f.Name, f.Target)
	}
	// Output:
	// company CN=Company Root CA true
	// company.pem ""
	// d9ca3caa.0 "company.pem"
}
