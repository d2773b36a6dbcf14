# The image initbox: one static binary, and a link to it for each subcommand.
# See images/README.md for its use, and for building it for several architectures.

# The compiler runs on the architecture of the machine that builds, whatever the image's is.
# docker build without BuildKit does not set BUILDPLATFORM: "linux" then stands for that architecture.
FROM --platform=${BUILDPLATFORM:-linux} golang:1.26 AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -tags=urfave_cli_no_docs"

COPY go.mod go.sum ./
RUN go mod download
COPY . .

# The names of the links come from the binary itself, built to run here.
RUN go run ./cmd/initbox --list > /commands && test -s /commands

ARG TARGETOS
ARG TARGETARCH
ARG TARGETVARIANT
ARG VERSION=devel
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH GOARM=${TARGETVARIANT#v} go build -ldflags "-s -w -buildid= -X main.version=$VERSION" \
    -o /image/bin/initbox ./cmd/initbox

# The layer must be reproducible, so modes and times are fixed.
ARG SOURCE_DATE_EPOCH=0
RUN cd /image && chmod 0755 bin bin/initbox && \
    while read -r name; do ln -s bin/initbox "$name" || exit; done < /commands && \
    touch -h -d "@$SOURCE_DATE_EPOCH" bin/* *

FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="initbox" \
      org.opencontainers.image.description="What Kubernetes init containers do, without a shell" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/bin/initbox"]
