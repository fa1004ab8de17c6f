#!/bin/sh
# Makes what the parts of docker-compose.yml need to know each other by, in the folder $1; leaves what is there.
# Everybody in the composed network may read it: it is a lab.
set -eu
folder=$1
cd "$folder"
[ -e done ] && exit 0
umask 022

# The API server's certificate, and the authority that signed it.
subject='subjectAltName=DNS:kube-apiserver,DNS:localhost,IP:127.0.0.1'
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=lab' \
  -keyout ca.key -out ca.crt 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=kube-apiserver' \
  -addext "$subject" -addext 'basicConstraints=critical,CA:FALSE' -CA ca.crt -CAkey ca.key \
  -keyout api.key -out api.crt 2>/dev/null

# What it signs ServiceAccount tokens with, and the token of its one user.
openssl ecparam -name prime256v1 -genkey -noout -out sa.key
openssl ec -in sa.key -pubout -out sa.pub 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" > tokens.csv
printf %s "$token" > token
cat > kubeconfig <<END
{ "apiVersion": "v1", "kind": "Config", "current-context": "lab",
  "clusters": [{ "name": "lab", "cluster": { "server": "https://kube-apiserver:6443", "certificate-authority": "ca.crt" } }],
  "users": [{ "name": "admin", "user": { "token": "$token" } }],
  "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "admin" } }] }
END

# What who opens the page has to show.
openssl rand -hex 16 > page-token

# A pair of keys for each gateway; its tunnels share it, as each has a port of its own.
for side in server client; do
  wg genkey > "$side.key"
  wg pubkey < "$side.key" > "$side.pub"
done
chmod 644 ./*
touch done
