#!/bin/sh
# Makes the NATS users of docker-compose.yml in the folder $1; keys that are there stay.
# Everybody in the composed network may read them: it is a lab. What each may do, the server holds it to.
set -eu
node infra/nats/make-users.ts "$1" liqo-tenant-milan liqo-tenant-rome
chmod -R a+rX "$1"
