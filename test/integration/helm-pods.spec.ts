import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isHelmAvailable } from '../servers/helm.mjs';
import { isKeycloakAvailable, startKeycloak } from '../servers/keycloak.mjs';
import { freePort, type Server } from '../servers/server.mjs';
import { isVersitygwAvailable, startVersitygw } from '../servers/versitygw.mjs';
import { Chart, environmentOf, merged, type Pod, pod, PROVIDERS, secretOf, servicePod, STORES } from '../support/helm-chart.js';
import { Workspace } from '../support/process.js';
import { readiness } from '../support/readiness.js';

const BASE_PATH = '/load/v1';
/** Lets each process of Node print the most memory that it had, in KiB, when it ends. */
const PEAK = `--import=data:text/javascript,${encodeURIComponent("import { writeSync } from 'node:fs'; process.on('exit', () => { writeSync(2, `PEAK ${process.resourceUsage().maxRSS}\\n`); });")}`;

describe.runIf(isHelmAvailable() && isKeycloakAvailable() && isVersitygwAvailable())('the pods of the Helm chart, on a real Keycloak and S3 server', () => {
  const servers: Server[] = [];
  let workspace: Workspace;
  let chart: Chart;
  beforeAll(async () => {
    [workspace, chart] = await Promise.all([Workspace.create(), Chart.create()]);
  });
  afterAll(async () => {
    await workspace.dispose();
    await chart.dispose();
    await Promise.all(servers.map((server) => server.stop()));
  });

  it('set up the realm without printing a secret, serve without a volume, and verify the bucket', async () => {
    const [keycloak, s3] = await Promise.all([startKeycloak({ realm: { realm: 'other' } }), startVersitygw()]);
    servers.push(keycloak, s3);
    await s3.createBucket('load-data');
    const { S3_ENDPOINT, S3_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = s3.environment('load-data');
    const identitySetup = { enabled: true, existingSecret: 'administrator', keys: { KEYCLOAK_ADMIN_USERNAME: 'KEYCLOAK_ADMIN_USERNAME', KEYCLOAK_ADMIN_PASSWORD: 'KEYCLOAK_ADMIN_PASSWORD' } };
    const objects = await chart.render(
      merged({ shape: 'distributed' }, STORES.s3, PROVIDERS.keycloak, {
        config: { BASE_PATH, KEYCLOAK_URL: keycloak.endpoint, S3_ENDPOINT, S3_REGION, SWAGGER_UI_CLIENT_ID: 'load-data-swagger-ui' },
        ...{ identitySetup, verifyStore: { enabled: true } },
      }),
    );
    const secrets: Record<string, string | undefined> = { KEYCLOAK_ADMIN_USERNAME: 'admin', KEYCLOAK_ADMIN_PASSWORD: 'admin-secret', AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY };
    /** Runs a pod as its image would: in the folder of the service, with the command of the Dockerfile by default. */
    const start = ({ spec: { containers } }: Pod, variables = {}) => {
      const [command = '', ...parameters] = containers[0].command ?? ['node', 'dist/main.js'];
      return workspace.run(command, parameters, { ...environmentOf(containers[0], (key) => secrets[key] ?? secretOf(key)), ...variables }, '.');
    };

    const job = pod(objects, 'Job');
    const setup = start(job, { NODE_OPTIONS: PEAK });
    const { code } = await setup.exited;
    expect(code, setup.stderr).toBe(0);
    expect(setup.stdout).toBe('');
    expect(setup.stderr).toContain('+ client load-data-service');
    for (const secret of [secretOf('KEYCLOAK_CLIENT_SECRET'), 'admin-secret']) expect(setup.stderr).not.toContain(secret);
    const peaks = [...setup.stderr.matchAll(/^PEAK (\d+)$/gm)].map(([, kibibytes]) => Number(kibibytes) / 1024);
    expect(peaks).toHaveLength(2);
    const [, least, most] = /the set-up of a realm, whose two processes had (\d+) to (\d+) MiB together/.exec(await readFile('deploy/helm/load-data-service/README.md', 'utf8')) ?? [];
    console.log(`The set-up of a realm had ${peaks.map(Math.round).join(' and ')} MiB.`);
    // Resident memory includes as much of Node's own file as the kernel has mapped, which varies between runs.
    const together = peaks.reduce((sum, peak) => sum + peak);
    expect(together).toBeGreaterThan(Number(least) * 0.8);
    expect(together).toBeLessThan(Number(most) * 1.2);

    // Nobody can create DATA_DIR there.
    const port = await freePort();
    const service = start(servicePod(objects), { PORT: String(port), DATA_DIR: '/dev/null/data' });
    await service.line(/^Ready: /);
    const base = `http://127.0.0.1:${port}${BASE_PATH}`;
    expect(await readiness(base)).toEqual({ status: 200 });
    const upload = await fetch(`${base}/ingestNowcastLoadData/upload_nowcast?customer_id=a&filename=b&manufacturer=c`, { method: 'POST', headers: { 'content-type': 'text/csv' }, body: '1' });
    expect(upload.status).toBe(200);

    const verification = start(pod(objects, 'CronJob'), { DATA_DIR: '/dev/null/data' });
    expect((await verification.exited).code).toBe(0);
    expect(JSON.parse(verification.stdout.trim())).toMatchObject({ summary: { uploads: 1, files: 1, defects: 0 } });
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  }, 240_000);
});
