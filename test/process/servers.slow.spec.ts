import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { Workspace } from '../support/process.js';

describe('before npm run test:integration', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it.each<[string, string[]]>([
    ['Java', ['mvn']],
    ['Maven', ['java']],
  ])('without %s, one line for each server reports that it cannot be installed', async (_, present) => {
    const programs = join(workspace.directory, 'bin');
    await mkdir(programs);
    for (const name of present) await writeFile(join(programs, name), '#!/bin/sh\n', { mode: 0o755 });
    // Azurite is installed by npm, which is always there.
    const azurite = join(workspace.directory, 'load-data-service/azurite-3.35.0/node_modules/azurite/dist/src/blob/main.js');
    await mkdir(dirname(azurite), { recursive: true });
    await writeFile(azurite, '');
    const script = "import('./test/servers/prepare.mjs').then((servers) => servers.default())";
    const command = workspace.run(process.execPath, ['-e', script], { PATH: programs, XDG_CACHE_HOME: workspace.directory }, process.cwd());
    expect(await command.exited).toEqual({ code: 0, signal: null });
    expect(command.lines).toEqual([
      'Left out: the tests with DuckDB, for there is no Python with pip.',
      'Left out: the tests with Polars, for there is no Python with pip.',
      'Left out: the check of the SBOM by CycloneDX, for there is no Python with pip.',
      'Left out: the tests against S3, for there is no Go to install versitygw with.',
      'Left out: the tests against NATS, for there is no Go to install nats-server with.',
      'Left out: the tests against Keycloak, for there is no Java, or no Maven to install it with.',
      'Left out: the tests of the Helm chart, for there is no Go to install Helm with, or no Python with pip for the schemas of Kubernetes.',
      ...MISSING_PROXIES.map((name) => `Left out: the tests behind ${name}, for it is missing; on Debian: apt-get install ${name}.`),
      'Left out: the test that reads exported traces as protobuf, for there is no Python with pip.',
      'Left out: the test that sends traces to an OpenTelemetry Collector, for there is no Go to build it with.',
      'Left out: the test of the objects of the Prometheus Operator, for there is no Go to build its types with.',
      'Left out: the test of the webhook in Python, for there is no Python with pip.',
      'Left out: the tests of the rules and the dashboard, for Prometheus is missing; on Debian: apt-get install prometheus.',
      'Left out: the test with release 1.0.0, for its commit is not in the history of this clone.',
    ]);
  });
});
