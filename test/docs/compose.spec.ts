import { execFile } from 'node:child_process';
import { access, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parseKeycloakSetupEnvironment } from '../../src/configuration/commands.js';
import { parseEnvironment } from '../../src/configuration/service.js';
import { startService } from '../support/service.js';
import { parseYaml } from '../support/yaml.js';

const run = promisify(execFile);

interface Service {
  readonly extends?: { readonly file: string; readonly service: string };
  readonly image?: string;
  readonly build?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly command?: string | readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly networks?: Readonly<Record<string, { readonly ipv4_address?: string } | null>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly secrets?: readonly { readonly source: string; readonly target: string }[];
  readonly stop_grace_period?: string;
}

interface ComposeFile {
  readonly name?: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets?: Readonly<Record<string, { readonly file: string }>>;
}

/** What the image sets itself. */
const OF_THE_IMAGE = { NODE_ENV: 'production', HOST: '0.0.0.0', DATA_DIR: '/data' };
const SERVICE_IMAGE = 'load-data-service';
const SERVICE_PORT = 3000;
/** How long the service needs to stop besides waiting for requests, as docs/deploying.md says. */
const CLOSING_MS = 3_000;
const OF_AWS_SDK = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'];

/** Reads a file with the services that it extends. The paths of both files are relative to the same directory. */
async function compose(file: string): Promise<ComposeFile> {
  const read = parseYaml(await readFile(file, 'utf8')) as ComposeFile;
  const services = await Promise.all(
    Object.entries(read.services).map(async ([name, service]): Promise<[string, Service]> => {
      if (!service.extends) return [name, service];
      const extended = (await compose(service.extends.file)).services[service.extends.service];
      return [name, { ...extended, ...service, environment: { ...extended?.environment, ...service.environment } }];
    }),
  );
  return { ...read, services: Object.fromEntries(services) };
}

/** The environment in the container, with a stand-in for each secret. */
const environmentOf = ({ environment = {} }: Service): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, value.replace(/\$\{[^}]*\}/, 'a-secret-from-the-file-.env')]));

const servicesOf = ({ services }: ComposeFile): Service[] => Object.values(services);
const isAwaited = ({ services }: ComposeFile, name: string): boolean =>
  Object.values(services).some(({ depends_on: needs }) => needs?.[name]?.condition === 'service_completed_successfully');
const replicasOf = (file: ComposeFile): Service[] => servicesOf(file).filter(({ image, command }) => image === SERVICE_IMAGE && command === undefined);

describe.each(['compose.yaml', 'compose.replicas.yaml'])('%s', (name) => {
  it('sets only variables that the service knows, to values that it accepts', async () => {
    const readme = await readFile('README.md', 'utf8');
    const file = await compose(name);
    for (const service of replicasOf(file)) expect(parseEnvironment({ ...OF_THE_IMAGE, ...environmentOf(service) }).warnings).toEqual([]);
    const names = servicesOf(file).filter(({ image }) => image === SERVICE_IMAGE).flatMap((service) => Object.keys(service.environment ?? {}));
    expect(names).toContain('KEYCLOAK_CLIENT_SECRET');
    expect(names.filter((variable) => !readme.includes(`\`${variable}\``) && !OF_AWS_SDK.includes(variable))).toEqual([]);
  });

  it('sets up the realm and the client that the service uses, before the service starts', async () => {
    const file = await compose(name);
    const { setup } = file.services;
    if (!setup) throw new Error('There is no setup.');
    const realm = parseKeycloakSetupEnvironment(environmentOf(setup));
    expect(setup.depends_on).toEqual({ keycloak: { condition: 'service_healthy' } });
    for (const service of replicasOf(file)) {
      const { identityProvider, publicUrl } = parseEnvironment(environmentOf(service));
      const { url, clientId, clientSecret } = realm;
      expect({ ...identityProvider, publicUrl }).toMatchObject({ adapter: 'keycloak', url, realm: realm.realm, clientId, clientSecret, publicUrl: realm.publicUrl });
      expect(service.depends_on?.setup).toEqual({ condition: 'service_completed_successfully' });
    }
  });

  it('asks for the health of each container that another one waits for', async () => {
    const file = await compose(name);
    const needs = servicesOf(file).flatMap(({ depends_on: services = {} }) => Object.entries(services));
    const unchecked = needs.filter(([needed, { condition }]) => condition !== 'service_completed_successfully' && !file.services[needed]?.healthcheck);
    expect({ unchecked, some: needs.length > 1 }).toEqual({ unchecked: [], some: true });
  });

  it('names the version of each image, and builds that of the service', async () => {
    for (const { image, build } of servicesOf(await compose(name))) {
      if (image === SERVICE_IMAGE) expect(build).toBe('.');
      else expect(image).toMatch(/:v?\d+\.\d+\.\d+(?:-[a-z]+)?$/);
    }
  });

  it("gives the service's containers no writable root file system, and no rights of root", async () => {
    const ours = servicesOf(await compose(name)).filter(({ image }) => image === SERVICE_IMAGE);
    expect(ours.length).toBeGreaterThan(1);
    for (const container of ours) {
      expect(container).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
    }
  });

  it('has no secret', async () => {
    const set = servicesOf(await compose(name)).flatMap(({ environment = {} }) => Object.entries(environment));
    const secrets = set.filter(([variable]) => /SECRET|PASSWORD/.test(variable));
    expect({ inClearText: secrets.filter(([, value]) => !/^\$\{\w+(?::\?[^}]+)?\}$/.test(value)), some: secrets.length > 1 }).toEqual({ inClearText: [], some: true });
  });

  it('gives the service the time that stopping takes', async () => {
    for (const service of replicasOf(await compose(name))) {
      const { shutdownDelayMs, shutdownTimeoutMs } = parseEnvironment(environmentOf(service));
      expect(parseInt(service.stop_grace_period ?? '') * 1000).toBeGreaterThanOrEqual(shutdownDelayMs + shutdownTimeoutMs + CLOSING_MS);
    }
  });
});

describe('compose.yaml', () => {
  it('has the volume that docs/backup-and-restore.md replaces', async () => {
    const { name = '', services } = await compose('compose.yaml');
    const [volume = '', path] = services['load-data']?.volumes?.[0]?.split(':') ?? [];
    expect(path).toBe('/data');
    expect(await readFile('docs/backup-and-restore.md', 'utf8')).toContain(` && docker volume rm ${name}_${volume} &&\n`);
  });
});

describe('compose.replicas.yaml', () => {
  const FILE = 'compose.replicas.yaml';

  it('asks for the health of all containers that keep running', async () => {
    const file = await compose(FILE);
    const unchecked = Object.entries(file.services).filter(([name, { healthcheck }]) => !healthcheck && !isAwaited(file, name));
    expect(unchecked).toEqual([]);
  });

  it('asks whether a replica is ready without a file of its image, because that of 1.0.0 has no healthcheck.mjs', async () => {
    const [how, command = '', option, code = ''] = (await compose(FILE)).services['replica-1']?.healthcheck?.test ?? [];
    expect([how, command, option]).toEqual(['CMD', 'node', '-e']);
    const service = await startService();
    const check = () => run(command, ['-e', code.replace(`:${SERVICE_PORT}/`, `:${service.port}/`)]).then(() => 0, (error: unknown) => (error as { code: number }).code);
    try {
      expect(await check()).toBe(0);
    } finally {
      await service.close();
    }
    expect(await check()).toBe(1);
  });

  it('starts two equal replicas, at the addresses in the configuration of nginx', async () => {
    const file = await compose(FILE);
    const [first, second, ...others] = replicasOf(file);
    expect(others).toEqual([]);
    expect({ ...first, networks: undefined }).toEqual({ ...second, networks: undefined });
    const addresses = [first, second].map((replica) => replica?.networks?.proxy?.ipv4_address);
    const configuration = await readFile('deploy/nginx/load-data-service.conf', 'utf8');
    const upstreams = [...configuration.matchAll(/^ +server (\S+) max_fails=0;$/gm)].map(([, address]) => address);
    expect(upstreams).toEqual(addresses.map((address) => `${address}:${SERVICE_PORT}`));
    expect(await readFile('Dockerfile', 'utf8')).toContain(`\nEXPOSE ${SERVICE_PORT}\n`);
  });

  it('gives nginx its configuration and its certificate, and publishes PUBLIC_URL', async () => {
    const file = await compose(FILE);
    const { nginx, 'replica-1': replica } = file.services;
    const [source = '', target] = nginx?.volumes?.[0]?.split(':') ?? [];
    await access(source);
    expect(target).toMatch(/^\/etc\/nginx\/conf\.d\/.*\.conf$/);
    const configuration = await readFile(source, 'utf8');
    const certificate = [...configuration.matchAll(/^ +ssl_certificate(?:_key)? (.+);$/gm)].map(([, path]) => path);
    expect(nginx?.secrets?.map((secret) => secret.target)).toEqual(certificate);
    expect(nginx?.secrets?.map((secret) => file.secrets?.[secret.source]?.file.split('/').at(-1))).toEqual(certificate.map((path) => path?.split('/').at(-1)));
    const [address, port] = nginx?.ports?.[0]?.match(/^127\.0\.0\.1:(\d+):443$/) ?? [];
    expect([address, replica?.environment?.PUBLIC_URL]).toEqual([expect.any(String), `https://localhost:${port}`]);
  });

  it("sends nginx's access log to the log of its container", async () => {
    const { nginx } = (await compose(FILE)).services;
    const [, log] = /^ +access_log (\S+) /m.exec(await readFile('deploy/nginx/load-data-service.conf', 'utf8')) ?? [];
    expect(nginx?.command).toEqual(['sh', '-c', `ln -sf /dev/stdout ${log} && exec nginx -g 'daemon off;'`]);
  });

  it('creates the bucket that the replicas use', async () => {
    const { s3, 'replica-1': replica } = (await compose(FILE)).services;
    const { S3_BUCKET: bucket, S3_ENDPOINT: endpoint = '', S3_REGION: region, AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret } = replica?.environment ?? {};
    const command = s3?.entrypoint?.at(-1);
    expect(command).toContain(`mkdir -p /data/${bucket} && exec versitygw `);
    expect(command).toContain(` --region ${region} `);
    expect(new URL(endpoint)).toMatchObject({ hostname: 's3', port: /--port :(\d+) /.exec(command ?? '')?.[1] });
    expect(s3?.environment).toEqual({ ROOT_ACCESS_KEY_ID: key, ROOT_SECRET_ACCESS_KEY: secret });
    expect(s3?.volumes).toEqual(['bucket:/data']);
  });
});
