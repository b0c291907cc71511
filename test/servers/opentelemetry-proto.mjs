// Decodes traces in OTLP's protobuf form with OpenTelemetry's own package for Python, which is generated from the
// definition of the protocol.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const VERSION = '1.45.0';
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const HOME = join(CACHE, `opentelemetry-proto-${VERSION}`);
const DECODE = `
import base64, sys
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
request = ExportTraceServiceRequest()
request.ParseFromString(base64.b64decode(sys.argv[1]))
print(MessageToJson(request))
`;
const run = promisify(execFile);

/** Whether the package is available on this machine: it is installed, or Python has pip to install it. */
export const isDecoderAvailable = () => existsSync(HOME) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0;

/** Installs the package outside the repository unless it is installed. */
export async function installDecoder() {
  if (existsSync(HOME)) return;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', fresh, `opentelemetry-proto==${VERSION}`]);
    await rename(fresh, HOME);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Decodes the body of a request to `/v1/traces`.
 *
 * @param {Buffer} body
 * @returns {Promise<object>} the same in JSON, with ids in base64.
 */
export async function decodeTraces(body) {
  const { stdout } = await run('python3', ['-c', DECODE, body.toString('base64')], { env: { ...process.env, PYTHONPATH: HOME } });
  return JSON.parse(stdout);
}
