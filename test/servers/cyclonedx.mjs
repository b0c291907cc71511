// Checks a list of packages (SBOM) with CycloneDX's own library for Python, which has the schemas.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { PythonPackages } from './python-packages.mjs';

const VERSION = '11.12.0';
const LIBRARY = new PythonPackages([`cyclonedx-python-lib[json-validation]==${VERSION}`], { name: `cyclonedx-${VERSION}` });
const CHECK = `
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
print(JsonStrictValidator(version).validate_str(text) or "valid")
`;
const run = promisify(execFile);

export const isCycloneDxAvailable = () => LIBRARY.areAvailable;

export const installCycloneDx = () => LIBRARY.install();

/** @returns {Promise<string>} `valid`, or what is wrong with the SBOM by the strict schema. */
export async function checkCycloneDx(file) {
  const { stdout } = await run('python3', ['-c', CHECK, file], { env: { ...process.env, PYTHONPATH: LIBRARY.path } });
  return stdout.trim();
}
