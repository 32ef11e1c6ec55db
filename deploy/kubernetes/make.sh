#!/bin/sh
# Renders the chart to plain manifests, for `kubectl apply -f` without Helm. HELM names the program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
chart=$here/../helm/pocketmq

render() {
    file=$1
    shift
    {
        echo "# Made from deploy/helm/pocketmq by deploy/kubernetes/make.sh: change the chart instead."
        "${HELM:-helm}" template pocketmq "$chart" --kube-version 1.31.0 --namespace pocketmq "$@"
    } > "${OUT:-$here}/$file"
}

render cluster.yaml
render ha.yaml --values "$chart/values-ha.yaml"
