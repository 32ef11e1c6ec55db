#!/bin/sh
# Installs PocketMQ into a virtual environment of its own, as small as servers need it: what the
# images hold of it, and what `make image-size` measures.
#
#   deploy/install.sh /opt/pocketmq ".[control,etcd]"
#
# PYTHON is the interpreter, python3 unless told otherwise; PIP is the command of a pip that is 22.3
# or newer. strip (of binutils) takes the libraries' debug symbols, which are a quarter of all.
set -eu

TARGET=$1
PROJECT=$2
PYTHON=${PYTHON:-python3}
PIP=${PIP:-$PYTHON -m pip}
export PYTHONDONTWRITEBYTECODE=

"$PYTHON" -m venv --without-pip "$TARGET"
PYTHON=$TARGET/bin/python
$PIP --python "$PYTHON" install --quiet --no-cache-dir --no-compile --disable-pip-version-check "$PROJECT"

# Tests, stubs and sources of extensions are for who builds with them.
PACKAGES=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
find "$PACKAGES" -type d -name tests -prune -exec rm -rf {} +
find "$PACKAGES" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]' -o -name '*.a' \) -delete
if command -v strip >/dev/null; then
  # Not the libraries that wheels bring along in NAME.libs: these were edited, which strip breaks.
  find "$PACKAGES" -type f -name '*.so*' -not -path '*.libs/*' -exec strip --strip-debug {} +
fi

# Servers start on a read-only root: what they import, also later, is compiled here, and of other
# packages nothing else is. The imports also show that nothing is missing.
"$PYTHON" -m compileall -q "$PACKAGES/pocketmq"
"$PYTHON" -c '
from importlib import import_module
from importlib.util import find_spec

import cryptography.x509, hpack, isal, lz4.frame, numpy, zstandard
import pocketmq.broker.broker, pocketmq.broker.broker_set, pocketmq.cli.main, pocketmq.namesrv
import pocketmq.proxy.rpc.messaging_pb2, pocketmq.testing.cluster

for extra in ("aiohttp", "starlette.applications", "uvicorn"):
    if find_spec(extra.partition(".")[0]):
        import_module(extra)
'
for command in up broker namesrv proxy health; do
  "$PYTHON" -m pocketmq.cli.main "$command" --help >/dev/null
done
