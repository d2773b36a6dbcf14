package convert

import "initbox/cmd/translate"

// The tables of what writes files.
var (
	fileCommands = map[string]command{
		"cd":      deferred((*files).cd),
		"mkdir":   deferred((*files).mkdir),
		"chown":   deferred((*files).chown),
		"chgrp":   deferred((*files).chgrp),
		"chmod":   deferred((*files).chmod),
		"touch":   deferred((*files).touch),
		"rm":      deferred((*files).rm),
		"ln":      deferred((*files).ln),
		"cp":      deferred((*files).cp),
		"rsync":   deferred((*files).rsync),
		"git":     deferred((*files).git),
		"find":    deferred((*files).find),
		"curl":    deferred((*files).curl),
		"wget":    deferred((*files).wget),
		"tar":     deferred((*files).tar),
		"unzip":   deferred((*files).unzip),
		"mv":      deferred((*files).mv),
		"install": deferred((*files).install),

		"echo":     prints((*files).write),
		"printf":   prints((*files).write),
		"cat":      prints((*files).cat),
		":":        prints((*files).write),
		"true":     prints((*files).write),
		"envsubst": deferred((*files).envsubst),
		"sed":      deferred((*files).sed),
		"sysctl":   sysctl,

		"ls": prints(nil), "id": prints(nil), "whoami": prints(nil), "df": prints(nil), "stat": prints(nil),
		"du": prints(nil), "date": prints(nil), "pwd": prints(nil), "uname": prints(nil), "env": prints(nil), "printenv": prints(nil),
		"sync": prints(nil), "ulimit": prints(nil), // the last command: its limits end with the shell
	}
	fileTools = map[string]tool{
		"git-sync":    compatible("git-clone", "git-sync", translate.GitSync),
		"k8s-sidecar": compatible("kube-get", "k8s-sidecar", translate.K8sSidecar),
		"git":         gitTool, // alpine/git, bitnami/git
		"curl":        programTool("curl", (*files).curl),
		"gomplate":    gomplate,

		"velero-plugin-for-aws": veleroPlugin, "velero-plugin-for-csi": veleroPlugin, "velero-plugin-for-gcp": veleroPlugin,
		"velero-plugin-for-microsoft-azure": veleroPlugin,
	}
)
