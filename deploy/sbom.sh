#!/bin/sh
# Writes a CycloneDX bill of materials of what is installed beside an interpreter.
#
#   deploy/sbom.sh /opt/pocketmq/bin/python pocketmq.cdx.json
#
# CYCLONEDX is the command of cyclonedx-bom, cyclonedx-py unless told otherwise.
set -eu

exec ${CYCLONEDX:-cyclonedx-py} environment --pyproject "$(dirname "$0")/../pyproject.toml" \
  --mc-type application --spec-version 1.6 --output-format JSON \
  --output-reproducible --output-file "$2" "$1"
