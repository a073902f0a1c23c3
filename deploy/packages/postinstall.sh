#!/bin/sh
# Runs after a package was installed or updated: makes the user of the service and the file for its secrets.
set -e
if ! getent passwd ravenbot >/dev/null; then
    useradd --system --home-dir /var/lib/ravenbot --shell /usr/sbin/nologin ravenbot
fi
if [ ! -e /etc/ravenbot/.env ]; then
    echo RAVENBOT_STORE=/var/lib/ravenbot/ravenbot.db >/etc/ravenbot/.env
fi
chown ravenbot: /etc/ravenbot/.env
chmod 0600 /etc/ravenbot/.env
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart ravenbot
fi
echo "Put tokens and keys into /etc/ravenbot/.env (see /usr/share/doc/ravenbot/env.example), then: systemctl enable --now ravenbot"
