#!/bin/bash
# Brings docker-compose.yml up for real, tries it from all sides and takes everything down again,
# volumes included. Exits 0 when every step held, 1 at the first that did not.
#
#   deploy/try-compose.sh [--keep]        --keep leaves the cluster up at the end
#
# Environment: POCKETMQ_BASE  base image (pocketmq-base:local, made by make-base.sh when missing)
#              POCKETMQ       the client on the host (.venv/bin/pocketmq, or the one on the PATH)
set -euo pipefail
cd "$(dirname "$0")/.."

PROJECT=pocketmq-try
HEALTHY_WITHIN_S=120
REGISTERED_WITHIN_S=60
CONSUME_WITHIN_S=30
HOST_NAMESRV='localhost:9876;localhost:9877'
INSIDE_NAMESRV='namesrv-1:9876;namesrv-2:9876'
SAMPLE_ROWS=$(($(wc -l <deploy/sample/orders.csv) - 1))
EXPORT=/var/lib/pocketmq/orders
ALIVE_WORKERS='
import json, urllib.request
print(json.load(urllib.request.urlopen("http://127.0.0.1:8080/json/", timeout=5))["aliveworkers"])'
COUNT_ROWS='
import sys, pyarrow.dataset
print(pyarrow.dataset.dataset(sys.argv[1], partitioning="hive").count_rows())'
export POCKETMQ_BASE=${POCKETMQ_BASE:-pocketmq-base:local}
KEEP=no
case ${1:-} in
  '') ;;
  --keep) KEEP=yes ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac

STARTED=no
ERRORS=$(mktemp)
step() { printf '\n== %s\n' "$*"; }
held() { printf '   ok: %s\n' "$*"; }
fail() { printf '   FAILED: %s\n' "$*" >&2; exit 1; }

if docker compose version >/dev/null 2>&1; then COMPOSE=(docker compose); else COMPOSE=(docker-compose); fi
compose() { "${COMPOSE[@]}" -p "$PROJECT" "$@"; }

finish() {
  local code=$?
  trap - EXIT
  if [ $STARTED = yes ] && [ $code != 0 ]; then compose logs --tail=30 || true; fi
  if [ $STARTED = yes ] && [ $KEEP = no ]; then
    step "take everything down"
    compose --profile client --profile spark --profile spark-cluster down --volumes --remove-orphans >/dev/null 2>&1 || code=1
    local left
    left=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT"
           docker volume ls -q --filter "label=com.docker.compose.project=$PROJECT")
    if [ -z "$left" ]; then held "no container and no volume is left"; else echo "   left: $left" >&2; code=1; fi
  fi
  if [ $code = 0 ]; then echo; echo "try-compose: everything held"; else echo; echo "try-compose: FAILED" >&2; fi
  rm -f "$ERRORS"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# ---- the client's commands, on the host and inside the network --------------------------------
host() { "$POCKETMQ" "$@" --namesrv "$HOST_NAMESRV"; }
# Compose reports its own progress on stderr; it is of interest only when the command fails.
inside() {
  compose run --rm --no-deps -T client "$@" --namesrv "$INSIDE_NAMESRV" 2>"$ERRORS" ||
    { cat "$ERRORS" >&2; return 1; }
}
send() { "$1" send "$2" "$3" >/dev/null || fail "$1 could not send to $2"; }

# consume WHERE TOPIC COUNT: the bodies of COUNT messages from the beginning, one a line.
consume() {
  "$1" consume "$2" --count "$3" --timeout "$CONSUME_WITHIN_S" --from-beginning
}
expect() { grep -qF -- "$2" <<<"$1" || fail "expected '$2' in: $1"; }

# ---- the steps --------------------------------------------------------------------------------
wait_healthy() {
  local service id state deadline=$((SECONDS + HEALTHY_WITHIN_S))
  for service in "$@"; do
    while :; do
      id=$(compose ps -q "$service")
      state=$([ -n "$id" ] && docker inspect --format '{{.State.Health.Status}}' "$id" || echo absent)
      [ "$state" = healthy ] && break
      [ $SECONDS -lt $deadline ] || fail "$service is $state after $HEALTHY_WITHIN_S s"
      sleep 1
    done
  done
}

# A name server that was restarted is told of the brokers by their next registration, every 30 s.
wait_registered() {
  local route deadline=$((SECONDS + REGISTERED_WITHIN_S))
  until route=$("$POCKETMQ" topic route TryCompose -o json --namesrv "$1" 2>"$ERRORS") &&
      grep -q 10911 <<<"$route" && grep -q 11911 <<<"$route"; do
    [ $SECONDS -lt $deadline ] || { cat "$ERRORS" >&2; fail "$1 does not know both brokers: $route"; }
    sleep 1
  done
}

check_user() {
  local service id
  for service in namesrv-1 broker-a; do
    id=$(compose exec -T "$service" id -u | tr -d '\r')
    [ "$id" = 10001 ] || fail "$service runs as uid $id"
    compose exec -T "$service" sh -c 'touch .try && rm .try' || fail "$service cannot write to its volume"
    if compose exec -T "$service" touch /opt/pocketmq/.try 2>/dev/null; then fail "$service can write to its root"; fi
  done
  held "they run as uid 10001 on a read-only root and can write to their volumes"
}

check_routes() {
  expect "$(host topic route TryCompose -o json)" 127.0.0.1:10911
  expect "$(host topic route TryCompose -o json)" 127.0.0.1:11911
  held "the host is told 127.0.0.1:10911 and 127.0.0.1:11911"
  expect "$(inside topic route TryCompose -o json)" broker-a:10911
  expect "$(inside topic route TryCompose -o json)" broker-b:11911
  held "containers are told broker-a:10911 and broker-b:11911"
}

# cross TEXT COUNT: one message from either side, read on both; COUNT messages are there afterwards.
cross() {
  send host TryCompose "$1 from the host"
  send inside TryCompose "$1 from inside"
  local side bodies
  for side in host inside; do
    bodies=$(consume $side TryCompose "$2") || fail "$side could not consume"
    expect "$bodies" "$1 from the host"
    expect "$bodies" "$1 from inside"
  done
  held "both sides sent, and both read all $2 messages"
}

POCKETMQ=${POCKETMQ:-$([ -x .venv/bin/pocketmq ] && echo .venv/bin/pocketmq || command -v pocketmq || true)}
[ -n "$POCKETMQ" ] || fail "no pocketmq on this host: pip install . first, or set POCKETMQ"
docker info >/dev/null 2>&1 || fail "the Docker daemon does not answer: start it (dockerd)"

step "images from $POCKETMQ_BASE, with ${COMPOSE[*]}"
docker image inspect "$POCKETMQ_BASE" >/dev/null 2>&1 || deploy/make-base.sh "$POCKETMQ_BASE"
output=$(compose --profile spark build broker-a spark 2>&1) || { tail -30 <<<"$output"; fail "the build failed"; }
for image in pocketmq:local pocketmq-spark:local; do
  held "$image, $(($(docker image inspect --format '{{.Size}}' $image) / 1000000)) MB"
done

step "bring the cluster up"
STARTED=yes
since=$SECONDS
compose up -d --no-build >/dev/null 2>&1 || { compose up -d --no-build || true; fail "up failed, see above: the ports 9876, 9877, 10911 and 11911 must be free"; }
wait_healthy namesrv-1 namesrv-2 broker-a broker-b
held "two name servers and two brokers are healthy after $((SECONDS - since)) s"
check_user

step "a client on the host and a client inside the network"
output=$(host topic create TryCompose 2>&1) || fail "the host could not create a topic: $output"
check_routes
cross first 2

step "the Spark job loads the sample"
compose run --rm --no-deps -T spark || fail "the job failed"
rows=$(consume host Orders "$SAMPLE_ROWS" | wc -l)
[ "$rows" = "$SAMPLE_ROWS" ] || fail "$rows of $SAMPLE_ROWS rows arrived"
held "all $rows rows of the sample are in the topic Orders"

step "a Spark cluster of two workers, and a job that is submitted to it"
compose --profile spark-cluster up -d --no-build --scale spark-worker=2 >/dev/null 2>"$ERRORS" ||
  { cat "$ERRORS" >&2; fail "it did not come up: the port 8080 must be free"; }
wait_healthy spark-master
deadline=$((SECONDS + HEALTHY_WITHIN_S))
until compose exec -T spark-master python3 -c "$ALIVE_WORKERS" | grep -qx 2; do
  [ $SECONDS -lt $deadline ] || fail "two workers did not come to the master"
  sleep 1
done
compose run --rm --no-deps -T spark-submit /jobs/export.py Orders --to "$EXPORT" || fail "the job failed"
rows=$(compose run --rm --no-deps -T --entrypoint python3 spark-submit -c "$COUNT_ROWS" "$EXPORT" 2>"$ERRORS") ||
  { cat "$ERRORS" >&2; fail "what it exported cannot be read"; }
[ "$rows" = "$SAMPLE_ROWS" ] || fail "$rows of $SAMPLE_ROWS rows were exported"
held "two workers exported all $rows rows to the volume they share"
compose --profile spark-cluster rm --stop --force spark-worker spark-master >/dev/null 2>&1

step "one name server is killed"
compose kill namesrv-1 >/dev/null 2>&1
cross second 4
compose up -d --no-build namesrv-1 >/dev/null 2>&1
wait_healthy namesrv-1
wait_registered localhost:9876
held "it came back, and both brokers registered with it again"

step "a broker's process is killed"
# The broker is the only child of the container's init process.
deadline=$((SECONDS + HEALTHY_WITHIN_S))
before=$(docker inspect --format '{{.RestartCount}}' "$(compose ps -q broker-a)")
compose exec -T broker-a sh -c 'kill -9 $(cat /proc/1/task/1/children)' || true
until [ "$(docker inspect --format '{{.RestartCount}}' "$(compose ps -q broker-a)")" -gt "$before" ]; do
  [ $SECONDS -lt $deadline ] || fail "broker-a was not restarted"
  sleep 1
done
wait_healthy broker-a
held "the restart policy brought it back"
cross third 6

step "the cluster is stopped and removed, and comes up again with its volumes"
since=$SECONDS
compose stop >/dev/null 2>&1
for id in $(compose ps -aq); do
  code=$(docker inspect --format '{{.State.ExitCode}}' "$id")
  [ "$code" = 0 ] || fail "$(docker inspect --format '{{.Name}}' "$id") stopped with exit code $code"
done
held "everything stopped cleanly within $((SECONDS - since)) s"
compose down >/dev/null 2>&1
compose up -d --no-build >/dev/null 2>&1
wait_healthy namesrv-1 namesrv-2 broker-a broker-b
check_routes
cross fourth 8
