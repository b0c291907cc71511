// Builds and starts an OpenTelemetry Collector, which receives traces by OTLP/HTTP and prints them.
// `node test/servers/otel-collector.mjs` runs one until it is interrupted.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { GoProgram } from './go-program.mjs';
import { freePort, serveShell, Server } from './server.mjs';

const MODULE = new URL('otel-collector/', import.meta.url);
const [source, versions, sums] = ['main.go', 'go.mod', 'go.sum'].map((name) => readFileSync(new URL(name, MODULE), 'utf8'));
const [, VERSION] = /^\s+go\.opentelemetry\.io\/collector\/otelcol v(\S+)$/m.exec(versions);
/** A hash of the collector's sources in its version, so that a changed collector is built again. */
const BUILD = createHash('sha256').update(source + versions + sums).digest('hex').slice(0, 8);
const PROGRAM = new GoProgram('otel-collector', `${VERSION}-${BUILD}`, MODULE);
const SPAN = /^ +Trace ID +: (?<traceId>\w+)\n +Parent ID +: (?<parentSpanId>\w*)\n +ID +: (?<spanId>\w+)\n +Name +: (?<name>.*)$/gm;

class OtelCollector extends Server {
  #output = '';

  constructor(port, log) {
    super('OpenTelemetry Collector', port, (text) => {
      this.#output += text;
      log?.(text);
    });
  }

  get spans() {
    return [...this.#output.matchAll(SPAN)].map(({ groups }) => ({ ...groups }));
  }
}

export const isOtelCollectorAvailable = () => PROGRAM.isAvailable;

export const installOtelCollector = () => PROGRAM.install();

/**
 * Starts an OpenTelemetry Collector, and builds it before if needed. Rejects if it isn't available or doesn't start.
 *
 * @param {{ encoding?: '' | 'gzip', log?: (text: string) => void }} [options]
 * @returns {Promise<import('./otel-collector.mjs').OtelCollector>}
 */
export async function startOtelCollector({ encoding = '', log } = {}) {
  await installOtelCollector();
  const port = await freePort();
  const collector = new OtelCollector(port, log);
  const configuration = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}`, compression_algorithms: [encoding] } } } },
    exporters: { debug: { verbosity: 'detailed', use_internal_logger: false } },
    service: { pipelines: { traces: { receivers: ['otlp'], exporters: ['debug'] } } },
  };
  // The configuration is written as JSON, which is YAML.
  await collector.start(PROGRAM.binary, ['--config', `yaml:${JSON.stringify(configuration)}`]);
  return collector;
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startOtelCollector({ log: console.log });
    return { server, variables: { OTEL_EXPORTER_OTLP_ENDPOINT: server.endpoint } };
  });
}
