package dirfd

import "golang.org/x/sys/unix"

// fstatat is the system call whose result is a [unix.Stat_t].
const fstatat = unix.SYS_FSTATAT64
