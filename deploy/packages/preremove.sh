#!/bin/sh
# Runs before a package is removed or updated. The store in /var/lib/ravenbot stays.
set -e
case "$1" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl disable --now ravenbot || true
    fi
    ;;
esac
