// Builds a program that decodes objects of Kubernetes into the types of the Prometheus Operator.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { GoProgram } from './go-program.mjs';

const MODULE = new URL('prometheus-operator/', import.meta.url);
const [source, versions, sums] = ['main.go', 'go.mod', 'go.sum'].map((name) => readFileSync(new URL(name, MODULE), 'utf8'));
const [, VERSION] = /github\.com\/prometheus-operator\/prometheus-operator\/pkg\/apis\/monitoring v(\S+)$/m.exec(versions);
/** A hash of the program's sources in its version, so that a changed program is built again. */
const BUILD = createHash('sha256').update(source + versions + sums).digest('hex').slice(0, 8);
const PROGRAM = new GoProgram('prometheus-operator', `${VERSION}-${BUILD}`, MODULE);

export const isPrometheusOperatorAvailable = () => PROGRAM.isAvailable;

export const installPrometheusOperator = () => PROGRAM.install();

/**
 * Resolves to the defects of objects: fields that the operator's types don't have, and values of another type.
 *
 * @param {readonly object[]} objects of the kinds ServiceMonitor and PrometheusRule
 * @returns {Promise<string[]>}
 */
export async function problemsOfOperatorObjects(objects) {
  await installPrometheusOperator();
  const checking = promisify(execFile)(PROGRAM.binary, [], { maxBuffer: 2 ** 26 });
  checking.child.stdin.end(JSON.stringify(objects));
  return JSON.parse((await checking).stdout);
}
