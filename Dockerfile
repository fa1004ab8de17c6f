# The image of wg-keepalive: `docker build -t wg-keepalive .` makes the last stage, `runtime`. The other stages are for
# docker-compose.yml. Base images are named by tag; pin them by digest where you build (--build-arg NODE_IMAGE=node@sha256:…).
ARG NODE_IMAGE=node:24.21.0-trixie-slim
ARG GO_IMAGE=golang:1.26-trixie
ARG BASE_IMAGE=debian:trixie-slim

# The bundle: one program with its packages inside.
FROM ${NODE_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
# The package `node` brings a Node of its own by an install script; here is one already.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN node node_modules/rolldown/bin/cli.mjs -c infra/bundle/rolldown.config.ts

# Carries a scenario out on the running system: cuts tunnels and loses datagrams in the network of a gateway.
FROM build AS scenario
RUN apt-get update && apt-get install -y --no-install-recommends nftables \
    && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["node", "infra/compose/run-scenario.ts"]

# NATS, etcd and kube-apiserver from the Go modules that the tests build them from.
FROM ${GO_IMAGE} AS servers
WORKDIR /src
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY infra/servers infra/servers
RUN --mount=type=cache,target=/built/go-build --mount=type=cache,target=/go/pkg/mod \
    XDG_CACHE_HOME=/built node infra/servers/build.ts nats-server etcd kube-apiserver \
    && mkdir /out && cp /built/wg-keepalive/servers/*/* /out

FROM ${BASE_IMAGE} AS parts
RUN apt-get update && apt-get install -y --no-install-recommends curl openssl ca-certificates wireguard-tools \
    && rm -rf /var/lib/apt/lists/*
COPY --from=servers /out /usr/local/bin
COPY infra/compose /compose
COPY infra/nats/server.conf /etc/nats/server.conf

# No package manager of Node, nothing but Node itself and the bundle.
FROM ${BASE_IMAGE} AS program
COPY --from=build /usr/local/bin/node /usr/local/bin/node
WORKDIR /app
COPY --from=build /src/package.json /src/LICENSE ./
COPY --from=build /src/dist dist
COPY --from=build /src/infra/crds infra/crds
ENV NODE_ENV=production
ENTRYPOINT ["node", "/app/dist/wg-keepalive.js"]

# A gateway of docker-compose.yml: makes its tunnels itself, which in a cluster Liqo's wireguard container does.
FROM program AS gateway
RUN apt-get update && apt-get install -y --no-install-recommends iproute2 wireguard-go wireguard-tools \
    && rm -rf /var/lib/apt/lists/*
COPY infra/compose/gateway.sh /compose/gateway.sh
ENTRYPOINT ["sh", "/compose/gateway.sh"]

FROM program AS runtime
USER 65532:65532
EXPOSE 8089
CMD ["--help"]
