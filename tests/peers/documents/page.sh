# Runs the commands of a page: a host in the background, and stand-ins for what needs root or other machines.
set -euo pipefail
exec 2>&1
served=

# Starts a host as the page says, ends the one before, and returns when it is ready.
serve() {
  stop
  exec {out}< <(exec "$HOST_PROGRAM" serve "$@" 2>> serve.log)
  served=$!
  local line
  while read -r line <&"$out"; do
    printf '%s\n' "$line"
    if [[ $line == ready* ]]; then return; fi
  done
  cat serve.log
  return 1
}

stop() {
  if [ -n "$served" ]; then
    kill "$served" && wait "$served" || true
    served=
  fi
}
trap stop EXIT

host() {
  if [ "$1" = serve ]; then serve "${@:2}"; else "$HOST_PROGRAM" "$@"; fi
}

systemctl() {
  if [ "$1" = start ]; then serve --data "$PWD/data"; else stop; fi
}

chown() { :; }
createdb() { :; }
ssh() { :; }

printf 'fail-with-body\nsilent\nshow-error\n' > .curlrc
mkdir -p etc/host etc/prometheus backup
host context add page --server "http://$HOST_HTTP_LISTEN"
host serve --data ./data --fresh
host deploy "$GUESTS/basics.wasm"
host deploy handlers.wasm
