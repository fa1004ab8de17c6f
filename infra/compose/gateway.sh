#!/bin/sh
# Makes the tunnels of one gateway of docker-compose.yml and becomes its keepalive. Needs NET_ADMIN, and /dev/net/tun where
# the kernel has no WireGuard. May be killed and started again at any time: it takes away what a former run has left.
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

fail() { echo "gateway.sh: $1" >&2; exit 1; }

# Told at once, before anything waits for a driver that cannot start.
NET_ADMIN=12 # the bit of CAP_NET_ADMIN, see capability.h
capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
[ $((0x$capabilities >> NET_ADMIN & 1)) -eq 1 ] || fail "NET_ADMIN is missing, so no tunnel can be made: give the container cap_add: [NET_ADMIN]"

interface() { [ "$1" -eq 0 ] && echo liqo-tunnel || echo "liqo-tunnel$1"; }

create() { # interface
  ip link delete "$1" 2>/dev/null || true # of a run that was killed
  ip link add "$1" type wireguard 2>/dev/null && return
  [ -c /dev/net/tun ] && (: <>/dev/net/tun) 2>/dev/null || fail "/dev/net/tun is missing or shut, and the kernel has no WireGuard: give the container devices: [/dev/net/tun]"
  LOG_LEVEL=error wireguard-go -f "$1" &
  driver=$!
  tries=0
  # wg takes away the socket of a driver that does not listen yet: it is asked only then.
  until grep -q " 00010000 .*/wireguard/$1\.sock$" /proc/net/unix && wg show "$1" >/dev/null 2>&1; do
    kill -0 "$driver" 2>/dev/null || fail "$1: wireguard-go ended, see above; where that is too many open files, sysctl -w fs.inotify.max_user_instances=1024 allows more tunnels on this machine"
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "$1: wireguard-go does not answer"
    sleep 0.1
  done
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
