# syntax=docker/dockerfile:1
#
# Two images:
#
#   docker build -t ravenbot .                      the default: the static binary and nothing else, no shell
#   docker build -t ravenbot:full --target full .   with Node.js, uv and Python, for MCP servers that are commands
#
# MCP servers with a "url" work in both. One with a "command" is a program that must be in the image: npx needs Node.js
# and uvx needs uv, so use the full image, or add the one program you need to an image of your own:
#
#   FROM node:22-bookworm-slim
#   COPY --from=ravenbot /ravenbot /usr/local/bin/ravenbot
#
# Both listen on 0.0.0.0 inside the container and refuse to start there without RAVENBOT_ADMIN_TOKEN.
# Mount a config.json of your own over /etc/ravenbot/config.json; state lives in the volume /var/lib/ravenbot.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X ravenbot/internal/cli.version=${VERSION} -X ravenbot/internal/cli.commit=${COMMIT}" -o /out/ravenbot ./cmd/ravenbot
# The empty folder gives the volume its owner.
RUN mkdir -p /out/etc/deploy /out/state && cp config.json /out/etc/ && cp deploy/config.schema.json /out/etc/deploy/

FROM node:22-bookworm-slim AS full
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git python3 python3-venv tzdata \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir 'uv==0.9.*' \
 && ln -s /opt/uv/bin/uv /opt/uv/bin/uvx /usr/local/bin/
COPY --from=build /out/ravenbot /ravenbot
COPY --from=build /out/etc /etc/ravenbot
COPY --from=build --chown=1000:1000 /out/state /var/lib/ravenbot
# npx and uvx keep what they download here; a volume makes the second start quick.
ENV RAVENBOT_LISTEN=0.0.0.0:8080 RAVENBOT_STORE=/var/lib/ravenbot/ravenbot.db \
    HOME=/var/lib/ravenbot npm_config_update_notifier=false
USER 1000:1000
WORKDIR /var/lib/ravenbot
VOLUME /var/lib/ravenbot
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["/ravenbot", "health", "--config", "/etc/ravenbot/config.json"]
ENTRYPOINT ["/ravenbot"]
CMD ["run", "--config", "/etc/ravenbot/config.json"]

# Time zones are in the binary; of the system it needs the certificates alone.
FROM scratch AS final
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ravenbot /ravenbot
COPY --from=build /out/etc /etc/ravenbot
COPY --from=build --chown=65532:65532 /out/state /var/lib/ravenbot
ENV RAVENBOT_LISTEN=0.0.0.0:8080 RAVENBOT_STORE=/var/lib/ravenbot/ravenbot.db
USER 65532:65532
WORKDIR /var/lib/ravenbot
VOLUME /var/lib/ravenbot
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["/ravenbot", "health", "--config", "/etc/ravenbot/config.json"]
ENTRYPOINT ["/ravenbot"]
CMD ["run", "--config", "/etc/ravenbot/config.json"]
