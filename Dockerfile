# The service alone. `docker build -t load-data-service .`
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY bundle.mjs nest-cli.json tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build && rm dist/.tsbuildinfo dist/bundle/.tsbuildinfo dist/bundle/package-lock.json && mkdir /data
# What only tests import: the service's own, and those of adapters.
RUN rm -r dist/testing dist/require/testing.* dist/require/contracts.* src/testing src/require/testing.cts src/require/contracts.cts
COPY deploy/image deploy/image
RUN npm prune --omit=dev && node deploy/image/prune.mjs \
  && npm pkg delete devDependencies 'exports[./testing]' 'exports[./testing/contracts]' \
  && node deploy/image/sbom.mjs > sbom.cdx.json

FROM node:24-bookworm-slim
WORKDIR /app
# The user `node`, by number: Kubernetes then sees that it isn't root.
COPY --from=build --chown=1000:1000 /data /data
COPY LICENSE deploy/image/healthcheck.mjs ./
COPY --from=build /app/package.json /app/sbom.cdx.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
# Where the source maps in dist find their sources.
COPY --from=build /app/src src
# The pages that Swagger UI links to.
COPY README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md ./
COPY docs docs
COPY examples/README.md examples/
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data UV_THREADPOOL_SIZE=16
VOLUME /data
EXPOSE 3000
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["node", "healthcheck.mjs"]
ARG REVISION=unknown
LABEL org.opencontainers.image.title="load-data-service" \
  org.opencontainers.image.description="Takes in historical and nowcast load data and manages the roles and users behind it, over HTTP." \
  org.opencontainers.image.version="1.0.0" \
  org.opencontainers.image.revision="$REVISION" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.base.name="docker.io/library/node:24-bookworm-slim"
# The base image has an entry point that needs a shell. And not through npm, so that signals reach the service.
ENTRYPOINT []
CMD ["node", "--enable-source-maps", "dist/main.js"]
