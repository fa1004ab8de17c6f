#!/bin/sh
# What each gateway finds in its cluster: its namespace, and the PublicKey of the remote one. Repeatable.
# usage: tenants.sh FOLDER, as prepare.sh made it; API_URL names another API server than that of docker-compose.yml
set -eu
folder=$1
url=${API_URL:-https://kube-apiserver:6443}

apply() { # path, object
  curl -fsS --cacert "$folder/ca.crt" -H "Authorization: Bearer $(cat "$folder/token")" -o /dev/null \
    -X PATCH -H 'Content-Type: application/apply-patch+yaml' --data-binary "$2" "$url$1?fieldManager=lab&force=true"
}

tenant() { # namespace, gateway, remote cluster, file with the remote public key
  apply "/api/v1/namespaces/$1" "{ \"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": { \"name\": \"$1\" } }"
  apply "/apis/networking.liqo.io/v1beta1/namespaces/$1/publickeies/gw-$2" "{
    \"apiVersion\": \"networking.liqo.io/v1beta1\", \"kind\": \"PublicKey\",
    \"metadata\": { \"name\": \"gw-$2\", \"namespace\": \"$1\", \"labels\": { \"liqo.io/remote-cluster-id\": \"$3\" } },
    \"spec\": { \"publicKey\": \"$(cat "$4")\" } }"
}

# The two sides have the names that those of `wg-keepalive lab` have (infra/lab/lab.ts).
tenant liqo-tenant-milan milan rome "$folder/client.pub"
tenant liqo-tenant-rome rome milan "$folder/server.pub"
