// Decodes traces in OTLP's protobuf form with OpenTelemetry's own package for Python, which is generated from the
// definition of the protocol.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { PythonPackages } from './python-packages.mjs';

const PACKAGE = new PythonPackages(['opentelemetry-proto==1.45.0']);
const DECODE = `
import base64, sys
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
request = ExportTraceServiceRequest()
request.ParseFromString(base64.b64decode(sys.argv[1]))
print(MessageToJson(request))
`;
const run = promisify(execFile);

export const isDecoderAvailable = () => PACKAGE.areAvailable;

export const installDecoder = () => PACKAGE.install();

/**
 * Decodes the body of a request to `/v1/traces`.
 *
 * @param {Buffer} body
 * @returns {Promise<object>} the same in JSON, with ids in base64.
 */
export async function decodeTraces(body) {
  const { stdout } = await run('python3', ['-c', DECODE, body.toString('base64')], { env: { ...process.env, PYTHONPATH: PACKAGE.path } });
  return JSON.parse(stdout);
}
