// Installs Helm, and the schemas of Kubernetes with their validator. `node test/servers/helm.mjs` does this.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GoProgram } from './go-program.mjs';
import { PythonPackages } from './python-packages.mjs';

const HELM = new GoProgram('helm', '3.19.0', 'helm.sh/helm/v3/cmd/helm');
/** The validator of manifests, with the schemas of Kubernetes 1.25 to 1.37. */
const VALIDATOR = new PythonPackages(['kubernetes-validate==1.37.0']);
const SCRIPT = join(import.meta.dirname, 'read-manifests.py');
const MOST_OUTPUT = 100 * 2 ** 20;
const run = promisify(execFile);

export const isHelmAvailable = () => HELM.isAvailable && VALIDATOR.areAvailable;

export async function installHelm() {
  await HELM.install();
  await VALIDATOR.install();
}

/**
 * Runs Helm without a cluster, and returns its standard output. Rejects with its error output.
 *
 * @param {readonly string[]} parameters
 * @returns {Promise<string>}
 */
export async function runHelm(parameters) {
  const { PATH, HOME } = process.env;
  const { stdout } = await run(HELM.binary, parameters, { env: { PATH, HOME, KUBECONFIG: '/dev/null' }, maxBuffer: MOST_OUTPUT });
  return stdout;
}

/**
 * Parses manifests, and validates each object by the schema of each version of Kubernetes. A property that the schema
 * doesn't know is a problem, and so is a key that occurs twice in an object.
 *
 * @param {readonly string[]} manifests YAML, each with any number of objects
 * @param {readonly string[]} versions such as `1.34`
 * @returns {Promise<{ objects: object[][], problems: string[] }>} the objects of each manifest
 */
export async function readManifests(manifests, versions) {
  const child = run('python3', [SCRIPT], { env: { ...process.env, PYTHONPATH: VALIDATOR.path }, maxBuffer: MOST_OUTPUT });
  child.child.stdin.end(JSON.stringify({ manifests, versions }));
  return JSON.parse((await child).stdout);
}

if (process.argv[1] === import.meta.filename) await installHelm();
