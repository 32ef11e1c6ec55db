#!/bin/sh
# Writes a CycloneDX bill of materials of what is installed beside an interpreter.
#
#   deploy/sbom.sh /opt/pocketmq/bin/python pocketmq.cdx.json
#
# CYCLONEDX is the command of cyclonedx-bom, cyclonedx-py unless told otherwise.
set -eu

# The tool reads the version in pyproject.toml, which leaves that to a module.
version=$("$1" -c 'from importlib.metadata import version; print(version("pocketmq"))')
project=$(mktemp)
trap 'rm -f "$project"' EXIT
sed "s/^dynamic = \[\"version\"\]$/version = \"$version\"/" "$(dirname "$0")/../pyproject.toml" > "$project"
${CYCLONEDX:-cyclonedx-py} environment --pyproject "$project" \
  --mc-type application --spec-version 1.6 --output-format JSON \
  --output-reproducible --output-file "$2" "$1"
