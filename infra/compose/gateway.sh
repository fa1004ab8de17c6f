#!/bin/sh
# Makes the tunnels of one gateway of docker-compose.yml and becomes its keepalive. Needs NET_ADMIN, and /dev/net/tun where
# the kernel has no WireGuard.
#
#   MODE      server | client
#   PEER      host name or address of the other gateway
#   TUNNELS   number of tunnels
#   SECRETS   folder that prepare.sh filled
#   "$@"      flags of `wg-keepalive gateway` besides --mode and --num-interfaces
set -eu
case $MODE in
  server) own=1 other=2 remote=client ;;
  client) own=2 other=1 remote=server ;;
  *) echo "MODE \"$MODE\": want server or client" >&2; exit 2 ;;
esac

interface() { [ "$1" -eq 0 ] && echo liqo-tunnel || echo "liqo-tunnel$1"; }

create() { # interface
  ip link delete "$1" 2>/dev/null || true # of a run that was killed
  ip link add "$1" type wireguard 2>/dev/null && return
  [ -c /dev/net/tun ] || { echo "$1: the kernel has no WireGuard, and there is no /dev/net/tun: give the container the device" >&2; exit 1; }
  LOG_LEVEL=error wireguard-go -f "$1" &
  driver=$!
  for _ in $(seq 100); do
    wg show "$1" >/dev/null 2>&1 && return
    kill -0 "$driver" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1: wireguard-go does not start: give the container NET_ADMIN and /dev/net/tun" >&2
  exit 1
}

index=0
while [ "$index" -lt "$TUNNELS" ]; do
  name=$(interface "$index")
  port=$((51820 + index))
  create "$name"
  wg set "$name" listen-port "$port" private-key "$SECRETS/$MODE.key" peer "$(cat "$SECRETS/$remote.pub")" \
    endpoint "$PEER:$port" allowed-ips "169.254.18.$((4 * index + other))/32"
  ip address replace "169.254.18.$((4 * index + own))/30" dev "$name"
  ip link set "$name" up
  index=$((index + 1))
done

exec ${PROGRAM:-node /app/dist/wg-keepalive.js} gateway --mode="$MODE" --num-interfaces="$TUNNELS" "$@"
