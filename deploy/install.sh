#!/bin/sh
# Installs a released ravenbot for this machine, after comparing its checksum:
#
#   RAVENBOT_RELEASES=https://example.org/ravenbot/v0.1.0 sh install.sh [FOLDER]
#
# RAVENBOT_RELEASES is the address, or the folder, of the files that "make release" wrote. FOLDER is /usr/local/bin
# unless it is named.
set -eu

: "${RAVENBOT_RELEASES:?set RAVENBOT_RELEASES to the address of a release}"
folder=${1:-/usr/local/bin}
system=$(uname -s | tr '[:upper:]' '[:lower:]')
case "$(uname -m)" in
x86_64 | amd64) machine=amd64 ;;
aarch64 | arm64) machine=arm64 ;;
*) echo "there is no release for $(uname -m)" >&2 && exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# get FILE fetches one file of the release.
get() {
    case "$RAVENBOT_RELEASES" in
    http*) reason=$(curl --fail --silent --show-error --location --max-time 300 --output "$work/$1" \
        "$RAVENBOT_RELEASES/$1" 2>&1) ;;
    *) reason=$(cp "$RAVENBOT_RELEASES/$1" "$work/$1" 2>&1) ;;
    esac || { echo "could not get $1 of the release at $RAVENBOT_RELEASES: $reason" >&2; exit 1; }
}

get SHA256SUMS
line=$(grep -E "_${system}_${machine}(_v1|_v8\.0)?\.tar\.gz\$" "$work/SHA256SUMS" | head -n 1)
archive=${line##* }
[ -n "$archive" ] || { echo "the release has nothing for $system on $machine" >&2; exit 1; }
get "$archive"
if command -v sha256sum >/dev/null; then
    sum=$(sha256sum "$work/$archive")
else
    sum=$(shasum -a 256 "$work/$archive")
fi
[ "${sum%% *}" = "${line%% *}" ] || { echo "the checksum of $archive is wrong; nothing was installed" >&2; exit 1; }
tar -xzf "$work/$archive" -C "$work" ravenbot
mkdir -p "$folder"
install -m 0755 "$work/ravenbot" "$folder/ravenbot"
echo "installed $("$folder/ravenbot" version | head -n 1) as $folder/ravenbot"
