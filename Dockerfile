# The image initbox: one static binary, and a link to it for each subcommand.
# What it is for and how it is built for several machines: images/README.md.

# The compiler runs on the machine that builds, whatever machine the image is for.
# A builder that does not set BUILDPLATFORM (docker build without BuildKit) is told
# "linux", which means: on its own kind of machine.
FROM --platform=${BUILDPLATFORM:-linux} golang:1.26 AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -tags=urfave_cli_no_docs"

COPY go.mod go.sum ./
RUN go mod download
COPY . .

# Which links there are, the binary itself says: one built to run here.
RUN go run ./cmd/initbox --list > /commands && test -s /commands

ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build -ldflags "-s -w -buildid= -X main.version=$VERSION" \
    -o /image/initbox ./cmd/initbox

# The layer's bytes follow from the sources: mode and times are not left to chance.
ARG SOURCE_DATE_EPOCH=0
RUN cd /image && chmod 0755 initbox && \
    while read -r name; do ln -s initbox "$name" || exit; done < /commands && \
    touch -h -d "@$SOURCE_DATE_EPOCH" *

FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="initbox" \
      org.opencontainers.image.description="What Kubernetes init containers do, without a shell" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/initbox"]
