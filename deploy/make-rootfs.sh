#!/bin/bash
# Makes the root of the small image out of packages of this machine's Debian: Python, what its
# extensions need, certificates, time zones and busybox. There is no package manager in it.
#
#   deploy/make-rootfs.sh /rootfs
set -euo pipefail

ROOT=$1
PACKAGES="python3-minimal libpython3-stdlib libstdc++6 tzdata netbase busybox-static"
TOOLS="dpkg|tar|debconf"   # what installs packages, which these depend on
SYSTEM="./usr/share/doc ./usr/share/man ./usr/share/locale ./usr/share/lintian ./usr/share/info"

mkdir -p "$ROOT"/{etc/ssl/certs,tmp,proc,dev,usr/{bin,sbin,lib,lib64},var/lib/pocketmq}
for name in bin sbin lib lib64; do
  ln -sfn "usr/$name" "$ROOT/$name"
done

DEBS=$(mktemp -d)
trap 'rm -rf "$DEBS"' EXIT
chmod 777 "$DEBS"  # apt downloads as a user of its own
# As on a machine that has nothing yet.
apt-get --simulate -o Dir::State::status=/dev/null -o Debug::NoLocking=1 install --no-install-recommends $PACKAGES |
  awk '$1 == "Inst" { print $2 }' | grep -vxE "$TOOLS" >"$DEBS/names"
(cd "$DEBS" && xargs apt-get --quiet=2 download <names)
for package in "$DEBS"/*.deb; do
  dpkg-deb --fsys-tarfile "$package" |
    tar -x --keep-directory-symlink -C "$ROOT" $(printf -- '--exclude=%s/* ' $SYSTEM)
done

ldconfig -r "$ROOT" 2>/dev/null || true   # as root only; the loader finds /usr/lib without it, too
ln -sf busybox "$ROOT/usr/bin/sh"
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$ROOT/etc/ssl/certs/ca-certificates.crt"
printf 'root:x:0:0:root:/root:/bin/sh\npocketmq:x:10001:10001::/var/lib/pocketmq:/bin/sh\n' >"$ROOT/etc/passwd"
printf 'root:x:0:\npocketmq:x:10001:\n' >"$ROOT/etc/group"
chmod 1777 "$ROOT/tmp"
[ "$(id -u)" != 0 ] || chown 10001:10001 "$ROOT/var/lib/pocketmq"
