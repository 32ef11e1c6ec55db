#!/bin/bash
# Makes a local base image out of this machine's own Debian or Ubuntu mirror, for machines that
# cannot pull from an image registry:
#
#   sudo deploy/make-base.sh [--jre] [IMAGE]         IMAGE defaults to pocketmq-base:local
#   POCKETMQ_BASE=IMAGE docker compose build
#
# The image holds python3 with venv and pip, and with --jre also a Java runtime for Spark. (Without
# it the Dockerfile installs one when it is needed.)
#
# It also carries what this machine needs to reach a package index: its CA bundle ($SSL_CERT_FILE,
# or the system's) and its pip settings. Those may hold an address with a password, so keep the
# image on this machine.
set -euo pipefail

die() { echo "make-base: $*" >&2; exit 1; }

IMAGE=pocketmq-base:local
PACKAGES=python3,python3-venv,python3-pip,ca-certificates
for argument in "$@"; do
  case $argument in
    --jre) PACKAGES+=,default-jre-headless ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) die "unknown option $argument: the only one is --jre" ;;
    *) IMAGE=$argument ;;
  esac
done

[ "$(id -u)" = 0 ] || die "debootstrap needs root: run it with sudo -E (which keeps the pip settings)"
for tool in debootstrap docker apt-get; do
  command -v "$tool" >/dev/null || die "$tool is missing: apt-get install debootstrap docker.io"
done
docker info >/dev/null 2>&1 || die "the Docker daemon does not answer: start it (dockerd)"

# The distribution's own repositories only: the ones that serve this machine's release.
RELEASE=$(. /etc/os-release && echo "$VERSION_CODENAME")
targets() { apt-get indextargets --format "$1" 'Created-By: Packages'; }
MIRROR=$(targets '$(RELEASE) $(REPO_URI)' | awk -v r="$RELEASE" '$1 == r { print $2; exit }')
COMPONENTS=$(targets '$(RELEASE) $(COMPONENT)' | awk -v r="$RELEASE" '$1 == r { print $2 }' | sort -u | paste -sd,)
[ -n "$MIRROR" ] || die "no apt source for $RELEASE: run apt-get update, or add one to the apt sources"

CA_BUNDLE=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
[ -r "$CA_BUNDLE" ] || die "no CA bundle at $CA_BUNDLE: install ca-certificates or set SSL_CERT_FILE"

ROOT=$(mktemp -d "${TMPDIR:-/var/tmp}/pocketmq-base.XXXXXX")
trap 'rm -rf --one-file-system "$ROOT"' EXIT

echo "debootstrap of $RELEASE with $PACKAGES"
debootstrap --variant=minbase --components="$COMPONENTS" --include="$PACKAGES" \
  "$RELEASE" "$ROOT" "$MIRROR" >"$ROOT.log" 2>&1 ||
  { tail -20 "$ROOT.log" >&2; die "debootstrap failed, the whole log is $ROOT.log"; }
rm -f "$ROOT.log"

# Updates and security fixes come from the same machine's sources when the Dockerfile runs apt-get.
targets '$(RELEASE) $(REPO_URI) $(COMPONENT)' | awk -v r="$RELEASE" \
  '$1 == r || $1 == r "-updates" || $1 == r "-security" { print "deb", $2, $1, $3 }' |
  sort -u >"$ROOT/etc/apt/sources.list"

# One file a certificate, so that every later update-ca-certificates keeps them.
mkdir -p "$ROOT/usr/local/share/ca-certificates/machine"
awk -v to="$ROOT/usr/local/share/ca-certificates/machine" '
  /-----BEGIN CERTIFICATE-----/ { file = sprintf("%s/%04d.crt", to, ++n) }
  file { print > file }
  /-----END CERTIFICATE-----/ { close(file); file = "" }' "$CA_BUNDLE"
chroot "$ROOT" update-ca-certificates >/dev/null 2>&1

# pip: the environment first, then this machine's own configuration files. Links to directories of
# this machine (a wheel house) mean nothing inside an image and stay behind.
setting() {
  local variable="PIP_$(tr 'a-z-' 'A-Z_' <<<"$1")"
  echo "${!variable:-$(python3 -m pip config get "global.$1" 2>/dev/null || true)}"
}
{
  echo '[global]'
  echo 'cert = /etc/ssl/certs/ca-certificates.crt'
  for name in index-url extra-index-url find-links trusted-host proxy timeout default-timeout retries; do
    value=$(setting "$name")
    case $value in
      ''|/*|file:*|.*) ;;
      *) echo "$name = $value" ;;
    esac
  done
} >"$ROOT/etc/pip.conf"

rm -rf "$ROOT"/var/cache/apt/archives/*.deb "$ROOT"/var/lib/apt/lists/* "$ROOT"/var/log/*.log \
  "$ROOT"/usr/share/doc/* "$ROOT"/usr/share/man/* "$ROOT/etc/hostname" "$ROOT/etc/resolv.conf"
tar --numeric-owner -C "$ROOT" -c . | docker import --change 'CMD ["python3"]' \
  --change 'ENV LANG=C.UTF-8' - "$IMAGE" >/dev/null
docker image inspect --format "made $IMAGE, {{.Size}} bytes" "$IMAGE"
