#!/bin/bash
# Makes what the small image holds below build/image, without Docker, and fails if it is more than
# 200 MB. As root it also runs a cluster within, as the image's user: nothing that it needs is left out.
#
#   deploy/image-size.sh         PYTHON is Debian's own interpreter, PIP a pip that is 22.3 or newer
set -euo pipefail

LIMIT_MB=200
cd "$(dirname "$0")/.."
ROOT=build/image/root

rm -rf build/image
deploy/make-rootfs.sh "$ROOT"
size_mb() { find "$@" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%.1f", sum / 1e6 }'; }
base=$(size_mb "$ROOT")
PYTHON=${PYTHON:-/usr/bin/python3} deploy/install.sh "$ROOT/opt/pocketmq" ".[control,etcd]"
ours=$(size_mb "$ROOT/opt/pocketmq")
total=$(size_mb "$ROOT")
echo "Debian's packages $base MB, PocketMQ with what it depends on $ours MB: $total MB of $LIMIT_MB MB"

if [ "$(id -u)" = 0 ]; then
  chroot --userspec=10001:10001 "$ROOT" /opt/pocketmq/bin/python -c '
import aiohttp, cryptography.x509, numpy, uvicorn, zstandard

from pocketmq.client import Message
from pocketmq.testing import LocalCluster

with LocalCluster(topics={"Orders": 1}) as cluster, cluster.producer() as producer:
    producer.send(Message("Orders", b"one"))
    assert [message.body for message in cluster.published("Orders")] == [b"one"]
print("a cluster within takes messages")
'
fi
awk -v total="$total" -v limit="$LIMIT_MB" 'BEGIN { exit total > limit }' ||
  { echo "image-size: the image is larger than $LIMIT_MB MB" >&2; exit 1; }
