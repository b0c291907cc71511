import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAuth0SetupEnvironment, parseKeycloakSetupEnvironment } from '../../src/configuration/commands.js';
import { EVENTS_NAMES } from '../../src/configuration/events.js';
import { IDENTITY_PROVIDERS } from '../../src/configuration/identity.js';
import { SECRET_FILE_NAMES } from '../../src/configuration/secret-files.js';
import { parseEnvironment, SERVICE_VARIABLES } from '../../src/configuration/service.js';
import { FILE_STORAGES } from '../../src/configuration/storage.js';
import { isHelmAvailable, readManifests, runHelm } from '../servers/helm.mjs';
import { isPrometheusOperatorAvailable, problemsOfOperatorObjects } from '../servers/prometheus-operator.mjs';
import { CHART, Chart, configured, environmentOf, type Labels, type Manifest, merged, ofKind, type Pod, pod, podsOf, PROVIDERS, RELEASE, secretOf, selects, servicePod, STORES, type Values } from '../support/helm-chart.js';
import { Workspace } from '../support/process.js';
import { startService } from '../support/service.js';

/** The oldest version that the chart accepts, one that is common, and the newest with a published schema. */
const KUBERNETES = ['1.30', '1.34', '1.37'];

const keys = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, name]));

interface Resources {
  readonly requests: { readonly cpu?: string; readonly memory: string };
  readonly limits: { readonly memory: string };
}

const resourcesOf = (objects: readonly Manifest[], kind: string) => pod(objects, kind).spec.containers[0].resources as Resources;

interface Case {
  readonly name: string;
  readonly values: Values;
  readonly objects: readonly Manifest[];
}

const SETUP_CREDENTIALS: Readonly<Record<string, readonly string[]>> = {
  keycloak: ['KEYCLOAK_ADMIN_USERNAME', 'KEYCLOAK_ADMIN_PASSWORD'],
  auth0: ['AUTH0_SETUP_CLIENT_ID', 'AUTH0_SETUP_CLIENT_SECRET'],
};
const BASE_PATH = '/load/v1';
/** The secrets of the service besides those of its store and identity provider. */
const OTHER_SECRETS = ['EVENTS_WEBHOOK_URL', 'EVENTS_WEBHOOK_SECRET', 'EMBEDDED_ADMIN_SECRET', 'OTEL_EXPORTER_OTLP_HEADERS'];
const RULES = 'deploy/prometheus/load-data-service.rules.yml';

const NO_OPTIONS: Values = {
  serviceAccount: { create: false },
  podSecurityContext: null,
  resources: null,
  preStopSeconds: 0,
  podDisruptionBudget: { enabled: false },
  topologySpreadConstraints: [],
  updateStrategy: 'Recreate',
};

/** Everything that can be on, and another value for everything else. */
function allOptions(shape: string, store: string, provider: string): Values {
  const credentials = SETUP_CREDENTIALS[provider];
  return merged(
    configured({ BASE_PATH, INGESTION_AUTH: 'required', MAX_UPLOAD_BYTES: 53_687_091_200, SHUTDOWN_TIMEOUT_MS: 90_500, RETENTION_DAYS: 730, TRUST_PROXY: 2, LOG_SAMPLE: 10, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.observability:4318', OTEL_SDK_DISABLED: false, OTEL_BSP_MAX_QUEUE_SIZE: 4096, OTEL_TRACES_SAMPLER_ARG: 0.01 }, ...OTHER_SECRETS),
    {
      image: { repository: 'registry.example.com/load-data-service', digest: `sha256:${'0'.repeat(64)}` },
      imagePullSecrets: [{ name: 'registry' }],
      fullnameOverride: 'a-name-that-is-as-long-as-the-name-of-a-release-can-be',
      extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/ca/ca.crt' }],
      extraEnvFrom: [{ configMapRef: { name: 'more', optional: true } }],
      extraVolumes: [{ name: 'ca', configMap: { name: 'ca' } }],
      extraVolumeMounts: [{ name: 'ca', mountPath: '/ca' }],
      verifyStore: { enabled: store !== 'own store' },
      persistence: { storageClassName: 'fast', size: '1Ti' },
      serviceAccount: { annotations: { 'eks.amazonaws.com/role-arn': 'arn:aws:iam::123456789012:role/load-data' } },
      service: { type: 'LoadBalancer', port: 8080, annotations: { a: 'b' } },
      ingress: { enabled: true, className: 'nginx', host: 'load.example.com', tlsSecret: 'tls' },
      networkPolicy: { enabled: true, from: [{ podSelector: {} }], extraEgress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }] },
      serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
      prometheusRule: { enabled: true, runbookUrl: 'https://wiki.example.com/load-data', labels: { release: 'prometheus' } },
      podAnnotations: { note: 'x' },
      podLabels: { 'azure.workload.identity/use': 'true' },
      priorityClassName: 'high',
      nodeSelector: { 'kubernetes.io/arch': 'amd64' },
      tolerations: [{ key: 'load', operator: 'Exists' }],
      affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: { matchExpressions: [{ key: 'zone', operator: 'Exists' }] } }] } },
    },
    shape === 'distributed' ? { autoscaling: { enabled: true } } : {},
    credentials ? { identitySetup: { enabled: true, existingSecret: 'administrator', keys: Object.fromEntries(credentials.map((name) => [name, name])) } } : {},
  );
}

/** The folder in the pods for the files of secrets. */
const SECRETS_DIRECTORY = '/secrets';

/** These values, with each secret of the service in a file. Those that an SDK reads remain variables. */
function secretsInFiles(values: Values): Values {
  const { secret } = merged(values, configured({}, ...OTHER_SECRETS)) as { secret: { existingSecret: string; keys: Record<string, string> } };
  const isInFile = (name: string) => SECRET_FILE_NAMES.includes(`${name}_FILE`);
  const names = Object.keys(secret.keys);
  const variables = names.filter((name) => !isInFile(name));
  return merged({ ...values, ...configured(values.config as Values, ...variables), ...(variables.length === 0 && { secret: {} }) }, {
    config: Object.fromEntries(names.filter(isInFile).map((name) => [`${name}_FILE`, `${SECRETS_DIRECTORY}/${name}`])),
    extraVolumes: [{ name: 'secrets', secret: { secretName: 'load-data' } }],
    extraVolumeMounts: [{ name: 'secrets', mountPath: SECRETS_DIRECTORY, readOnly: true }],
  });
}

/** Whether a shape makes sense with a store and an identity provider. */
function isSensible(shape: string, store: string, provider: string): boolean {
  const isBucket = store === 's3' || store.startsWith('azure');
  return shape === 'distributed' ? store !== 'local' && provider !== 'embedded' : !isBucket || !(provider in SETUP_CREDENTIALS);
}

const MATRIX = ['embedded', 'distributed'].flatMap((shape) =>
  Object.entries(STORES).flatMap(([store, ofStore]) =>
    Object.entries(PROVIDERS)
      .filter(([provider]) => isSensible(shape, store, provider))
      .flatMap(([provider, ofProvider]) =>
        Object.entries({
          'no options': merged(ofStore, ofProvider, NO_OPTIONS),
          'default options': merged(ofStore, ofProvider),
          'all options': merged(ofStore, ofProvider, allOptions(shape, store, provider)),
          'secrets in files': secretsInFiles(merged(ofStore, ofProvider)),
        }).map(([options, values]) => ({ name: `${shape}, ${store}, ${provider}, ${options}`, values: merged({ shape }, values) })),
      ),
  ),
);

/** What the Pod Security Standard "restricted" forbids in a pod: https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
function violations({ spec }: Pod): string[] {
  const pod = spec.securityContext;
  const volumes = ['configMap', 'csi', 'downwardAPI', 'emptyDir', 'ephemeral', 'persistentVolumeClaim', 'projected', 'secret'];
  return [
    ...['hostNetwork', 'hostPID', 'hostIPC', 'initContainers', 'ephemeralContainers'].filter((name) => name in spec),
    ...spec.volumes.filter((volume) => !volumes.some((source) => source in volume)).map(({ name }) => `volume ${name}`),
    ...('sysctls' in pod ? ['sysctls'] : []),
    ...spec.containers.flatMap(({ securityContext: own, ports = [] }) => {
      const context: Record<string, unknown> = { ...pod, ...own };
      const { add, drop } = context.capabilities as { add?: string[]; drop?: string[] };
      const rules = {
        allowPrivilegeEscalation: context.allowPrivilegeEscalation === false,
        'capabilities.drop': drop?.includes('ALL'),
        'capabilities.add': add === undefined,
        privileged: context.privileged !== true,
        runAsNonRoot: context.runAsNonRoot === true,
        runAsUser: context.runAsUser !== 0,
        seccompProfile: (context.seccompProfile as { type?: string }).type === 'RuntimeDefault',
        procMount: !('procMount' in context),
        hostPort: !ports.some((port) => 'hostPort' in port),
        // Beyond the standard.
        readOnlyRootFilesystem: context.readOnlyRootFilesystem === true,
      };
      return Object.entries(rules).flatMap(([rule, holds]) => (holds === true ? [] : [rule]));
    }),
  ];
}

describe.runIf(isHelmAvailable())('the Helm chart', () => {
  let chart: Chart;
  const template = (values: Values) => chart.template(values);
  const render = (values: Values) => chart.render(values);
  let cases: readonly Case[];
  let problems: readonly string[];

  /** The variables of a pod, with the files of secrets that this spec has written instead of those that are mounted. */
  const mounted = (variables: Record<string, string>) => Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, value.replace(SECRETS_DIRECTORY, `${chart.directory}$&`)]));

  beforeAll(async () => {
    chart = await Chart.create();
    await mkdir(`${chart.directory}${SECRETS_DIRECTORY}`);
    for (const name of SECRET_FILE_NAMES.map((file) => file.replace(/_FILE$/, ''))) await writeFile(`${chart.directory}${SECRETS_DIRECTORY}/${name}`, `${secretOf(name)}\n`);
    const manifests: string[] = [];
    const rest = [...MATRIX.entries()];
    const worker = async () => {
      for (let next = rest.pop(); next; next = rest.pop()) manifests[next[0]] = await template(next[1].values);
    };
    await Promise.all([worker(), worker()]);
    const read = await readManifests(manifests, KUBERNETES);
    ({ problems } = read);
    cases = MATRIX.map(({ name, values }, index) => ({ name, values, objects: read.objects[index] as Manifest[] }));
  });
  afterAll(() => chart.dispose());

  it('passes lint, including with its examples', async () => {
    for (const values of [[], ['--values', `${CHART}/examples/embedded.yaml`], ['--values', `${CHART}/examples/distributed.yaml`]]) {
      expect(await runHelm(['lint', '--strict', '--kube-version', '1.34', CHART, ...values])).toContain('1 chart(s) linted, 0 chart(s) failed');
    }
  });

  it('is valid in three versions of Kubernetes, with every store, identity provider and option', () => {
    expect(problems).toEqual([]);
    expect(cases.length).toBe(104);
    const kinds = new Set(cases.flatMap(({ objects }) => objects.map(({ kind }) => kind)));
    expect([...kinds].sort()).toEqual(['CronJob', 'Deployment', 'HorizontalPodAutoscaler', 'Ingress', 'Job', 'NetworkPolicy', 'PodDisruptionBudget', 'PrometheusRule', 'Service', 'ServiceAccount', 'ServiceMonitor', 'StatefulSet']);
  });

  it.runIf(isPrometheusOperatorAvailable())('has objects that the Prometheus Operator knows, with every field', async () => {
    const objects = cases.flatMap((each) => each.objects.filter(({ kind }) => kind === 'ServiceMonitor' || kind === 'PrometheusRule'));
    expect(new Set(objects.map(({ kind }) => kind)).size).toBe(2);
    expect(await problemsOfOperatorObjects(objects)).toEqual([]);
  });

  it('is documented with the values that are tested, and the versions of Kubernetes', async () => {
    const versions = KUBERNETES.join(', ').replace(/, ([^,]*)$/, ' and $1');
    expect(await readFile('docs/kubernetes.md', 'utf8')).toMatch(new RegExp(`rendered with \\[${cases.length} sets of values\\].* Kubernetes ${versions} accept`));
    const tested = cases.map(({ name }) => name.split(', '));
    const options = new Set(tested.map((parts) => parts[3]));
    const table = Object.keys(STORES).map((store) => {
      const providers = ['embedded', 'distributed'].map((shape) => new Set(tested.filter((parts) => parts[0] === shape && parts[1] === store).map((parts) => parts[2])));
      return `| ${store} | ${providers.map((names) => [...names].join(', ') || '–').join(' | ')} |\n`;
    });
    const readme = await readFile(`${CHART}/README.md`, 'utf8');
    for (const text of [...options, `${cases.length} sets of values`, `Kubernetes ${versions}`, `|---|---|---|\n${table.join('')}`]) expect(readme).toContain(text);
  });

  it('is valid with its examples', async () => {
    const render = (name: string) => runHelm(['template', RELEASE, CHART, '--kube-version', '1.34', '--values', `${CHART}/examples/${name}.yaml`]);
    expect((await readManifests([await render('embedded'), await render('distributed')], KUBERNETES)).problems).toEqual([]);
  });

  it('has the version of the service', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
    expect(await readFile(`${CHART}/Chart.yaml`, 'utf8')).toContain(`\nappVersion: "${version}"\n`);
    expect(servicePod(await render({})).spec.containers[0].image).toBe(`load-data-service:${version}`);
    // A new tag changes the pod template, so that an upgrade replaces the pods.
    for (const tag of ['7', '0a1b2c3']) expect(servicePod(await render({ image: { tag } })).spec.containers[0].image).toBe(`load-data-service:${tag}`);
  });

  it('describes each of its values', async () => {
    const readme = await readFile(`${CHART}/README.md`, 'utf8');
    const names = [...(await readFile(`${CHART}/values.yaml`, 'utf8')).matchAll(/^(\w+):/gm)].map(([, name = '']) => name);
    expect(names.filter((name) => !new RegExp(`^\\|.*\`${name}[.\`].* \\|.*\\|.*\\|$`, 'm').test(readme))).toEqual([]);
    expect(names.length).toBeGreaterThan(30);
  });

  it('names its objects and labels them as Helm recommends', () => {
    for (const { name, objects } of cases) {
      for (const { metadata } of [...objects, ...podsOf(objects).map(({ pod }) => pod)]) {
        expect(metadata.labels, name).toMatchObject({ 'app.kubernetes.io/name': 'load-data-service', 'app.kubernetes.io/instance': RELEASE, 'app.kubernetes.io/managed-by': 'Helm', 'app.kubernetes.io/version': expect.any(String) as string });
      }
      // The names of a StatefulSet's pods and of a CronJob's Jobs must fit into a label too.
      for (const { kind, metadata } of objects) expect(metadata.name.length, name).toBeLessThanOrEqual(kind === 'Job' ? 63 : 52);
    }
  });

  it('conforms to the Pod Security Standard "restricted", and gives no pod a token', () => {
    const pods = cases.flatMap(({ name, objects }) => podsOf(objects).map(({ kind, pod }) => ({ name: `${name}: ${kind}`, pod })));
    expect(pods.length).toBeGreaterThan(cases.length);
    expect(pods.flatMap(({ name, pod }) => violations(pod).map((rule) => `${name}: ${rule}`))).toEqual([]);
    expect(pods.filter(({ pod }) => pod.spec.automountServiceAccountToken)).toEqual([]);
  });

  it('keeps to "restricted" whatever podSecurityContext says', async () => {
    const objects = await render({ podSecurityContext: { runAsUser: 4711, seLinuxOptions: { level: 's0:c1,c2' } } });
    expect(violations(servicePod(objects))).toEqual([]);
    expect(servicePod(objects).spec.securityContext).toMatchObject({ runAsUser: 4711 });
    await expect(render({ podSecurityContext: { runAsUser: 0 } })).rejects.toThrow("at '/podSecurityContext/runAsUser': minimum: got 0, want 1");
    await expect(render({ podSecurityContext: { runAsNonRoot: false } })).rejects.toThrow("additional properties 'runAsNonRoot' not allowed");
  });

  it('contains no secret, but refers to the keys of a Secret', () => {
    const isSecret = /(?:SECRET|PASSWORD|CONNECTION_STRING|WEBHOOK|TOKEN|ACCESS_KEY|HEADERS)(?!.*_FILE$)/;
    for (const { name, objects } of cases) {
      expect(objects.filter(({ kind }) => kind === 'Secret' || kind === 'ConfigMap'), name).toEqual([]);
      const variables = podsOf(objects).flatMap(({ pod }) => pod.spec.containers[0].env);
      const secrets = variables.filter((variable) => isSecret.test(variable.name));
      expect(secrets.filter(({ value, valueFrom }) => value !== undefined || !valueFrom?.secretKeyRef.name), name).toEqual([]);
    }
  });

  describe('the environment', () => {
    const adapters = [...Object.values(FILE_STORAGES), ...Object.values(IDENTITY_PROVIDERS)];
    const names = new Set([...Object.keys(SERVICE_VARIABLES), ...adapters.flatMap(({ in: { shape } }) => Object.keys(shape)), ...EVENTS_NAMES]);
    for (const file of SECRET_FILE_NAMES) if (names.has(file.replace(/_FILE$/, ''))) names.add(file);

    it('can have every variable of the service, and no other', async () => {
      const schema = JSON.parse(await readFile(`${CHART}/values.schema.json`, 'utf8')) as { properties: { config: { properties: object } } };
      const ofPods = ['NODE_ENV', 'PORT', 'DATA_DIR'];
      expect(Object.keys(schema.properties.config.properties).sort()).toEqual([...names].filter((name) => !ofPods.includes(name)).sort());
    });

    it('has only variables that the service knows', () => {
      const others = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'NODE_EXTRA_CA_CERTS', ...Object.values(SETUP_CREDENTIALS).flat()];
      const set = new Set(cases.flatMap(({ objects }) => podsOf(objects).flatMap(({ pod }) => pod.spec.containers[0].env.map(({ name }) => name))));
      expect([...set].filter((name) => !names.has(name) && !others.includes(name) && !name.startsWith('OTEL_'))).toEqual([]);
    });

    it('is accepted by the service, without a warning', () => {
      for (const { name, objects, values } of cases) {
        const { env } = servicePod(objects).spec.containers[0];
        expect(new Set(env.map((variable) => variable.name)).size, name).toBe(env.length);
        const variables = environmentOf(servicePod(objects).spec.containers[0]);
        const environment = parseEnvironment(mounted(variables));
        expect({ name, ...environment }).toMatchObject({ name, production: true, host: '0.0.0.0', port: 3000, dataDirectory: '/data', warnings: [] });
        expect(environment.publicUrl, name).toMatch(name.endsWith('all options') ? /^https:\/\/load\.example\.com\/load\/v1$/ : /^http:\/\/load-data-service\.load\.svc$/);
        const { config = {} } = values as { config?: Record<string, unknown> };
        expect(variables, name).toMatchObject(Object.fromEntries(Object.entries(config).map(([variable, value]) => [variable, String(value)])));
      }
    });

    it("of the set-up has the file of the client's secret", async () => {
      const setup = { identitySetup: { enabled: true, existingSecret: 'a', keys: keys(SETUP_CREDENTIALS.keycloak ?? []) } };
      const [container] = pod(await render(merged({ shape: 'distributed' }, secretsInFiles(merged(STORES.s3, PROVIDERS.keycloak)), setup)), 'Job').spec.containers;
      const variables = environmentOf(container);
      expect(variables).toMatchObject({ KEYCLOAK_CLIENT_SECRET_FILE: `${SECRETS_DIRECTORY}/KEYCLOAK_CLIENT_SECRET` });
      expect(container.volumeMounts).toContainEqual({ name: 'secrets', mountPath: SECRETS_DIRECTORY, readOnly: true });
      expect(() => parseKeycloakSetupEnvironment(mounted(variables))).not.toThrow();
    });

    it('of the Jobs is accepted by their commands', () => {
      const setups = cases.flatMap(({ name, objects }) => (ofKind(objects, 'Job') ? [{ name, container: pod(objects, 'Job').spec.containers[0] }] : []));
      expect(setups.length).toBe(12);
      for (const { name, container } of setups) {
        const variables = environmentOf(container);
        const [command] = container.command?.slice(-1) ?? [];
        expect(command, name).toBe(variables.KEYCLOAK_URL === undefined ? 'auth0-setup' : 'keycloak-setup');
        const parse = command === 'keycloak-setup' ? parseKeycloakSetupEnvironment : parseAuth0SetupEnvironment;
        expect(parse(variables), name).toMatchObject({ publicUrl: 'https://load.example.com/load/v1', basePath: BASE_PATH });
        // The set-up has no business in the bucket.
        expect(Object.keys(variables).filter((variable) => /^(AWS|S3|AZURE|EVENTS)_/.test(variable)), name).toEqual([]);
      }
      for (const { name, objects } of cases) {
        if (!ofKind(objects, 'CronJob')) continue;
        const [container] = pod(objects, 'CronJob').spec.containers;
        expect({ name, command: container.command, env: container.env }).toEqual({ name, command: ['node', 'dist/main.js', 'verify', '--json'], env: servicePod(objects).spec.containers[0].env });
      }
    });
  });

  it('runs one process on a volume, and no volume for several', () => {
    for (const { name, objects } of cases) {
      const claims = podsOf(objects).flatMap(({ pod }) => pod.spec.volumes.filter((volume) => 'persistentVolumeClaim' in volume));
      if (name.startsWith('embedded')) {
        expect(ofKind(objects, 'Deployment', 'HorizontalPodAutoscaler', 'PodDisruptionBudget'), name).toBeUndefined();
        expect(ofKind(objects, 'StatefulSet')?.spec, name).toMatchObject({ replicas: 1, volumeClaimTemplates: [{ metadata: { name: 'data' } }] });
        expect(servicePod(objects).spec.containers[0].volumeMounts, name).toContainEqual({ name: 'data', mountPath: '/data' });
      } else {
        expect(ofKind(objects, 'StatefulSet'), name).toBeUndefined();
        expect(claims, name).toEqual([]);
        expect(ofKind(objects, 'Deployment')?.spec?.replicas, name).toBe(name.endsWith('all options') ? undefined : 2);
      }
    }
  });

  it('verifies a volume beside the pod that writes it, and changes nothing', async () => {
    const objects = await render({ verifyStore: { enabled: true } });
    const { spec } = pod(objects, 'CronJob');
    expect(spec.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: 'data-load-data-service-0' } });
    expect(spec.containers[0].volumeMounts).toContainEqual({ name: 'data', mountPath: '/data', readOnly: true });
    const service = servicePod(objects).metadata.labels;
    const [term] = (spec.affinity as { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { topologyKey: string; labelSelector: { matchLabels: Labels } }[] } }).podAffinity.requiredDuringSchedulingIgnoredDuringExecution;
    expect(term?.topologyKey).toBe('kubernetes.io/hostname');
    expect(selects(term?.labelSelector.matchLabels ?? {}, service)).toBe(true);
    expect(selects(term?.labelSelector.matchLabels ?? {}, pod(objects, 'CronJob').metadata.labels)).toBe(false);

    const existing = await render({ verifyStore: { enabled: true }, persistence: { existingClaim: 'mine' } });
    for (const kind of ['StatefulSet', 'CronJob']) expect(pod(existing, kind).spec.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: 'mine' } });
  });

  it.runIf(spawnSync('jq', ['--version']).status === 0)('moves its store in a pod that docs/moving-to-a-bucket.md makes of the StatefulSet', async () => {
    const [, program = ''] = /\bjq '([^']+)'/.exec(await readFile('docs/moving-to-a-bucket.md', 'utf8')) ?? [];
    for (const existingClaim of ['', 'mine']) {
      const objects = await render(merged(STORES.s3, { config: { FILE_STORAGE: 'local' }, persistence: { existingClaim } }));
      const { stdout } = spawnSync('jq', [program], { input: JSON.stringify(ofKind(objects, 'StatefulSet')), encoding: 'utf8' });
      const { objects: made, problems } = await readManifests([stdout], KUBERNETES);
      expect(problems).toEqual([]);
      const [[move]] = made as [[Pod]];
      const [{ env, volumeMounts }] = servicePod(objects).spec.containers;
      expect(move.spec.containers).toEqual([expect.objectContaining({ command: ['node', 'dist/main.js', 'move', '--to', 's3'], env, volumeMounts })]);
      expect(move.spec.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: existingClaim || 'data-load-data-service-0' } });
      expect(violations(move)).toEqual([]);
      expect(selects(ofKind(objects, 'Service')?.spec?.selector ?? {}, move.metadata.labels)).toBe(false);
    }
  });

  it("sends requests only to the service's pods", () => {
    for (const { name, objects } of cases) {
      const selected = (selector: Labels = {}) => podsOf(objects).flatMap(({ kind, pod }) => (selects(selector, pod.metadata.labels) ? [kind] : []));
      const workload = name.startsWith('embedded') ? 'StatefulSet' : 'Deployment';
      const service = ofKind(objects, 'Service');
      expect(selected(service?.spec?.selector), name).toEqual([workload]);
      expect(service?.spec?.ports?.[0]).toMatchObject({ name: 'http', targetPort: 'http' });
      expect(servicePod(objects).spec.containers[0].ports, name).toEqual([{ name: 'http', containerPort: 3000 }]);
      for (const { kind, spec } of objects) {
        if (['StatefulSet', 'Deployment', 'PodDisruptionBudget'].includes(kind)) expect(selected(spec?.selector?.matchLabels), `${name}: ${kind}`).toEqual([workload]);
      }
      const monitor = ofKind(objects, 'ServiceMonitor');
      if (monitor) expect([monitor.spec?.endpoints?.[0]?.port, selects(monitor.spec?.selector?.matchLabels ?? {}, service?.metadata.labels ?? {})], name).toEqual(['http', true]);
    }
  });

  it('names the job of Prometheus so that the rules find it, whatever the Service is called', async () => {
    const selectors = new Set([...(await readFile(RULES, 'utf8')).matchAll(/job=~"([^"]+)"/g)].map(([, selector = '']) => `^(?:${selector})$`));
    expect(selectors.size).toBe(1);
    const ofCases = cases.flatMap(({ objects }) => ofKind(objects, 'ServiceMonitor') ?? []);
    expect(ofCases.length).toBeGreaterThan(20);
    const renamed = [{}, { fullnameOverride: 'ingest' }, { nameOverride: 'ingest' }].map(async (names) => ofKind(await render({ serviceMonitor: { enabled: true }, ...names }), 'ServiceMonitor'));
    const jobs = [...ofCases, ...(await Promise.all(renamed))].map((monitor) => monitor?.spec?.endpoints?.[0]?.relabelings?.[0]);
    for (const job of jobs) {
      expect(job?.targetLabel).toBe('job');
      for (const selector of selectors) expect(job?.replacement).toMatch(new RegExp(selector));
    }
    expect(jobs.slice(-3).map((job) => job?.replacement)).toEqual(['load-data-service', 'load-data-ingest', 'load-data-service-ingest']);
  });

  it('keeps all pods while it is updated, and all but one while a node is drained, and spreads them over zones and nodes', async () => {
    const objects = await render(merged({ shape: 'distributed' }, STORES.s3, PROVIDERS.keycloak));
    expect(ofKind(objects, 'Deployment')?.spec).toMatchObject({ replicas: 2, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } });
    expect(ofKind(objects, 'PodDisruptionBudget')?.spec).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' });
    const { spec, metadata } = servicePod(objects);
    const { topologySpreadConstraints: spread = [] } = spec;
    expect(spread.map(({ topologyKey, maxSkew, whenUnsatisfiable, matchLabelKeys }) => [topologyKey, maxSkew, whenUnsatisfiable, matchLabelKeys])).toEqual(
      ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'].map((key) => [key, 1, 'ScheduleAnyway', ['pod-template-hash']]),
    );
    for (const { labelSelector } of spread) expect(selects(labelSelector.matchLabels, metadata.labels)).toBe(true);
    const scaled = await render(merged({ shape: 'distributed', autoscaling: { enabled: true, minReplicas: 3, maxReplicas: 9 } }, STORES.s3, PROVIDERS.keycloak));
    expect(ofKind(scaled, 'HorizontalPodAutoscaler')?.spec).toMatchObject({ minReplicas: 3, maxReplicas: 9, scaleTargetRef: { kind: 'Deployment', name: ofKind(scaled, 'Deployment')?.metadata.name } });
  });

  it('takes a pod out of service within 16 seconds, restarts one that hangs within 65, and gives it ten minutes to start', async () => {
    const { startupProbe, readinessProbe, livenessProbe } = servicePod(await render({})).spec.containers[0];
    for (const [probe, most] of [[readinessProbe, 16], [livenessProbe, 65], [startupProbe, 605]] as const) {
      const { periodSeconds = 10, failureThreshold = 3, timeoutSeconds = 1 } = probe;
      expect(periodSeconds * failureThreshold + timeoutSeconds).toBeLessThanOrEqual(most);
      // A check of the bucket takes up to five seconds.
      if (probe === readinessProbe) expect(timeoutSeconds).toBeGreaterThan(5);
    }
  });

  it('restricts the network of all of its pods, if it is asked to', () => {
    for (const { name, objects } of cases) {
      const policy = ofKind(objects, 'NetworkPolicy')?.spec;
      if (!policy) continue;
      for (const { pod } of podsOf(objects)) expect(selects(policy.podSelector?.matchLabels ?? {}, pod.metadata.labels), name).toBe(true);
      expect(policy, name).toMatchObject({
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ ports: [{ protocol: 'TCP', port: 'http' }], from: [{ podSelector: {} }] }],
        egress: [{ ports: [{ protocol: 'UDP', port: 53 }, { protocol: 'TCP', port: 53 }, { protocol: 'TCP', port: 443 }] }, { to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }],
      });
    }
    expect(cases.filter(({ objects }) => ofKind(objects, 'NetworkPolicy')).length).toBeGreaterThan(20);
  });

  it('sets the realm or tenant up before the pods start, and ends before Helm stops waiting', () => {
    const jobs = cases.flatMap(({ objects }) => ofKind(objects, 'Job') ?? []);
    expect(jobs.length).toBe(12);
    for (const { metadata, spec } of jobs) {
      expect(metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-install,pre-upgrade', 'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded' });
      expect(spec?.activeDeadlineSeconds).toBeLessThan(300);
    }
  });

  it('scales by the cores that a pod uses, whatever it requests', async () => {
    const scaled = await render(merged({ shape: 'distributed', resources: null, autoscaling: { enabled: true } }, STORES.s3, PROVIDERS.keycloak));
    expect(ofKind(scaled, 'HorizontalPodAutoscaler')?.spec).toMatchObject({ metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'AverageValue', averageValue: '700m' } } }] });
  });

  it('requests the memory that its README says, and no CPU for Jobs', async () => {
    const readme = await readFile(`${CHART}/README.md`, 'utf8');
    const setup = { identitySetup: { enabled: true, existingSecret: 'a', keys: keys(SETUP_CREDENTIALS.keycloak ?? []) } };
    const objects = await render(merged({ shape: 'distributed', verifyStore: { enabled: true } }, STORES.s3, PROVIDERS.keycloak, setup));
    const [service, verifyStore, identitySetup] = [resourcesOf(objects, 'Deployment'), resourcesOf(objects, 'CronJob'), resourcesOf(objects, 'Job')];
    expect(readme).toContain(`| \`resources\` | ${service.requests.cpu ?? ''} CPU and ${service.requests.memory} requested, at most ${service.limits.memory} |`);
    expect(readme).toMatch(new RegExp(`^\\| \`verifyStore.*, ${verifyStore.requests.memory} to ${verifyStore.limits.memory} \\|`, 'm'));
    expect(readme).toContain(`That of \`identitySetup\`, ${identitySetup.requests.memory} to ${identitySetup.limits.memory},`);
    expect([verifyStore, identitySetup].map(({ requests }) => Object.keys(requests))).toEqual([['memory'], ['memory']]);
  });

  it('sets for ingress-nginx what the configuration of nginx sets', async () => {
    const annotations = ofKind(await render({ ingress: { enabled: true, host: 'load.example.com' } }), 'Ingress')?.metadata.annotations ?? {};
    const nginx = await readFile('deploy/nginx/load-data-service.conf', 'utf8');
    const settings = { 'proxy-request-buffering': 'proxy_request_buffering', 'client-body-buffer-size': 'client_body_buffer_size', 'proxy-read-timeout': 'proxy_read_timeout', 'proxy-send-timeout': 'proxy_send_timeout' };
    for (const [annotation, directive] of Object.entries(settings)) {
      const value = new RegExp(`^ +${directive} (\\w+);$`, 'm').exec(nginx)?.[1];
      // The annotations of timeouts are seconds.
      expect([annotation, annotations[`nginx.ingress.kubernetes.io/${annotation}`]]).toEqual([annotation, value?.replace(/^(\d+)s$/, '$1')]);
    }
  });

  it('gives the service time to stop', async () => {
    const limits = [undefined, 0, 1_001, 90_500];
    for (const timeout of limits) {
      for (const values of [{ config: { SHUTDOWN_DELAY_MS: 7_000, ...(timeout !== undefined && { SHUTDOWN_TIMEOUT_MS: timeout }) } }, merged(STORES.s3, PROVIDERS.keycloak, { shape: 'distributed', preStopSeconds: 25, config: { ...(timeout !== undefined && { SHUTDOWN_TIMEOUT_MS: timeout }) } })]) {
        const { spec } = servicePod(await render(values));
        const [container] = spec.containers;
        const { shutdownDelayMs, shutdownTimeoutMs } = parseEnvironment(environmentOf(container));
        const preStop = container.lifecycle?.preStop.sleep.seconds ?? 0;
        expect(preStop).toBe('shape' in values ? 25 : 0);
        // How long the service needs to stop besides waiting for requests, as docs/deploying.md says.
        const spare = spec.terminationGracePeriodSeconds - preStop - (shutdownDelayMs + shutdownTimeoutMs) / 1000;
        expect(spare).toBeGreaterThanOrEqual(3);
        expect(spare).toBeLessThan(7);
      }
    }
  });

  it('asks the service at its own paths, and lets clients in to all operations, but not to health and metrics', async () => {
    const objects = await render({ config: { BASE_PATH }, ingress: { enabled: true, host: 'load.example.com' }, serviceMonitor: { enabled: true } });
    const [container] = servicePod(objects).spec.containers;
    const service = await startService({ ...environmentOf(container), HOST: '127.0.0.1', DATA_DIR: '' });
    try {
      const paths = [container.startupProbe, container.readinessProbe, container.livenessProbe].map(({ httpGet }) => httpGet.path);
      const { path: metrics = '' } = ofKind(objects, 'ServiceMonitor')?.spec?.endpoints?.[0] ?? {};
      expect(paths.map((path) => path.replace(BASE_PATH, ''))).toEqual(['/health/live', '/health/ready', '/health/live']);
      for (const path of [...paths, metrics]) expect([path, (await fetch(`http://127.0.0.1:${service.port}${path}`)).status]).toEqual([path, 200]);

      const allowed = ofKind(objects, 'Ingress')?.spec?.rules?.[0]?.http.paths ?? [];
      const isLetIn = (path: string) => allowed.some(({ path: own, pathType }) => path === own || (pathType === 'Prefix' && path.startsWith(`${own}/`)));
      const document = (await (await fetch(`http://127.0.0.1:${service.port}${BASE_PATH}/docs-json`)).json()) as { paths: Record<string, object> };
      const operations = Object.keys(document.paths).map((path) => (path.startsWith(BASE_PATH) ? path : `${BASE_PATH}${path}`));
      expect(operations.length).toBeGreaterThan(8);
      const pages = [BASE_PATH, `${BASE_PATH}/`, `${BASE_PATH}/docs`, `${BASE_PATH}/docs-json`, `${BASE_PATH}/idp/.well-known/openid-configuration`];
      expect([...operations, ...pages].filter((path) => !isLetIn(path))).toEqual([]);
      expect([...paths, metrics, `${BASE_PATH}/docs-other`, '/'].filter(isLetIn)).toEqual([]);
    } finally {
      await service.close();
    }
  });

  it('prints a first command that works', async () => {
    // Helm prints the notes only when it installs. So a copy of the chart has them in an object.
    const copy = join(chart.directory, 'chart');
    await cp(CHART, copy, { recursive: true });
    const notes = join(copy, 'templates/NOTES.txt');
    await writeFile(notes, `{{ define "notes" }}${await readFile(notes, 'utf8')}{{ end }}`);
    await rename(notes, join(copy, 'templates/_notes.tpl'));
    await writeFile(join(copy, 'templates/notes.yaml'), 'kind: ConfigMap\nnotes: {{ include "notes" . | toJson }}\n');
    const config = { BASE_PATH, INGESTION_AUTH: 'required' };
    const rendered = await chart.template({ config }, { chart: copy, parameters: ['--show-only', 'templates/notes.yaml'] });
    const lines = (JSON.parse(/^notes: (.*)$/m.exec(rendered)?.[1] ?? '') as string).split('\n').map((line) => line.trim());
    expect(lines).toContain('kubectl --namespace load rollout status statefulset/load-data-service');
    expect(lines).toContain('kubectl --namespace load port-forward service/load-data-service 3000:80 &');
    expect(lines).toContain('kubectl --namespace load exec statefulset/load-data-service -- node dist/main.js token');

    const index = lines.findIndex((line) => line.startsWith('until curl'));
    // The command that forwards the port runs in the background. `true` takes its place.
    const command = ['true &', ...lines.slice(index, index + 2)].join('\n');
    const service = await startService(config);
    const workspace = await Workspace.create();
    try {
      const curl = workspace.run('sh', ['-c', command.replaceAll('127.0.0.1:3000', `127.0.0.1:${service.port}`)], { TOKEN: await service.adminToken(['*']) });
      await curl.exited;
      expect(curl.stdout).toBe('{"status":"success","message":"Data uploaded successfully."}\n');
    } finally {
      await workspace.dispose();
      await service.close();
    }
  });

  describe('refuses', () => {
    const distributed = merged({ shape: 'distributed' }, STORES.s3, PROVIDERS.keycloak);
    it.each<[string, Values, string]>([
      ['an unknown shape', { shape: 'both' }, "at '/shape': value must be one of 'embedded', 'distributed'"],
      ['an unknown value', { replicas: 3 }, "additional properties 'replicas' not allowed"],
      ['an unknown variable', { config: { RATE_LIMIT_PER_MINUT: 5 } }, "at '/config': additional properties 'RATE_LIMIT_PER_MINUT' not allowed"],
      ['a number that is none', { config: { MAX_JSON_BYTES: '10MB' } }, "at '/config/MAX_JSON_BYTES': got string, want integer"],
      ['an empty config', { config: null }, "missing property 'config'"],
      ['several pods on one volume', { replicaCount: 2 }, 'replicaCount is 2, but shape embedded runs one pod, because only one process may use a volume: use shape distributed.'],
      ['scaling of one pod', { autoscaling: { enabled: true } }, 'autoscaling is enabled, but shape embedded runs one pod, because only one process may use a volume: use shape distributed.'],
      ['a Deployment with local files', { ...distributed, config: { ...(PROVIDERS.keycloak.config as Values), FILE_STORAGE: 'local' } }, 'shape distributed needs a bucket, because its pods have no volume: set config.FILE_STORAGE to s3 or azure.'],
      ['a Deployment with users of its own', merged({ shape: 'distributed' }, STORES.s3), 'shape distributed needs an identity provider that its pods share: set config.IDENTITY_PROVIDER to keycloak or auth0.'],
      ['a volume that nothing uses', { ...distributed, shape: 'embedded' }, 'shape embedded has a volume, on which nothing is kept with FILE_STORAGE s3 and IDENTITY_PROVIDER keycloak: use shape distributed.'],
      ['S3 without a bucket', merged(distributed, { config: { S3_BUCKET: '' } }), 'config.S3_BUCKET must be set, because FILE_STORAGE s3 needs it.'],
      ['Azure without a container', { config: { FILE_STORAGE: 'azure', AZURE_STORAGE_ACCOUNT_URL: 'https://a.example' } }, 'config.AZURE_STORAGE_CONTAINER must be set, because FILE_STORAGE azure needs it.'],
      ['Azure without an account', { config: { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'a' } }, 'FILE_STORAGE azure needs either config.AZURE_STORAGE_ACCOUNT_URL or secret.keys.AZURE_STORAGE_CONNECTION_STRING (or config.AZURE_STORAGE_CONNECTION_STRING_FILE).'],
      ['Azure with both', merged(STORES['azure by URL'], { config: { AZURE_STORAGE_CONNECTION_STRING_FILE: '/secrets/a' } }), 'FILE_STORAGE azure needs either'],
      ['Keycloak without its realm', merged(distributed, { config: { KEYCLOAK_REALM: '' } }), 'config.KEYCLOAK_REALM must be set, because IDENTITY_PROVIDER keycloak needs it.'],
      ['Keycloak without a secret', { ...distributed, secret: {} }, 'secret.keys.KEYCLOAK_CLIENT_SECRET must name a key in secret.existingSecret, or config.KEYCLOAK_CLIENT_SECRET_FILE the path of a file, because IDENTITY_PROVIDER keycloak needs it.'],
      ['Auth0 without anything', { config: { IDENTITY_PROVIDER: 'auth0' } }, 'config.OIDC_AUDIENCE must be set, because IDENTITY_PROVIDER auth0 needs it.'],
      ['a webhook without a secret', { secret: { existingSecret: 's', keys: { EVENTS_WEBHOOK_URL: 'url' } } }, 'secret.keys.EVENTS_WEBHOOK_SECRET must name a key in secret.existingSecret, or config.EVENTS_WEBHOOK_SECRET_FILE the path of a file, because EVENTS_WEBHOOK_URL needs it.'],
      ['a webhook in a file without a secret', { config: { EVENTS_WEBHOOK_URL_FILE: '/secrets/url' } }, 'secret.keys.EVENTS_WEBHOOK_SECRET must name a key in secret.existingSecret, or config.EVENTS_WEBHOOK_SECRET_FILE the path of a file, because EVENTS_WEBHOOK_URL needs it.'],
      ['a secret that is also in a file', merged(distributed, { config: { KEYCLOAK_CLIENT_SECRET_FILE: '/secrets/a' } }), 'KEYCLOAK_CLIENT_SECRET is set by secret.keys, and KEYCLOAK_CLIENT_SECRET_FILE by config: set only one of them.'],
      ['keys without a Secret', { secret: { keys: { EMBEDDED_ADMIN_SECRET: 'admin' } } }, "secret.keys has keys, but secret.existingSecret doesn't name the Secret that contains them."],
      ['a Secret without keys', { secret: { existingSecret: 's' } }, "secret.existingSecret names a Secret, but secret.keys doesn't say which variable is in which key."],
      ['a variable that is set twice', { config: { S3_REGION: 'a' }, extraEnv: [{ name: 'S3_REGION', value: 'b' }] }, 'S3_REGION is in extraEnv and set by config: set it once, in config or in secret.keys.'],
      ["one of the chart's own variables", { extraEnv: [{ name: 'PORT', value: '80' }] }, 'PORT is in extraEnv and set by the chart itself'],
      ['a secret that is set twice', { config: { BASE_PATH: '/a' }, secret: { existingSecret: 's', keys: { BASE_PATH: 'a' } } }, 'BASE_PATH is in secret.keys and set by config: set it once.'],
      ['an Ingress without a host', { ingress: { enabled: true } }, 'ingress.host must be set: PUBLIC_URL, which clients see, follows from it.'],
      ['a base path with a slash at its end', { config: { BASE_PATH: '/load/' } }, 'config.BASE_PATH must begin with "/" and not end with it; it is "/load/".'],
      ['a public URL without the base path', { config: { BASE_PATH: '/load', PUBLIC_URL: 'https://a.example' } }, 'config.PUBLIC_URL must end with config.BASE_PATH (/load).'],
      ['scaling down to more than up', merged(distributed, { autoscaling: { enabled: true, minReplicas: 9 } }), 'autoscaling.minReplicas (9) is greater than autoscaling.maxReplicas (8).'],
      ['a number of pods beside scaling', merged(distributed, { replicaCount: 3, autoscaling: { enabled: true } }), 'replicaCount is set, but autoscaling decides on the number of pods: leave one of them out.'],
      ['a share of a core that is none', merged(distributed, { autoscaling: { targetCPU: '70%' } }), 'autoscaling.targetCPU must be a quantity of cores, such as 700m; it is "70%".'],
      ['a size that is none', { persistence: { size: 'lots' } }, 'persistence.size must be a quantity of bytes, such as 20Gi; it is "lots".'],
      ['a size of nothing', { persistence: { size: '0Gi' } }, 'persistence.size must be a quantity of bytes, such as 20Gi; it is "0Gi".'],
      ['a name that no object can have', { fullnameOverride: 'Load Data' }, 'fullnameOverride must be letters in lower case, digits and hyphens, and begin with a letter; it is "Load Data".'],
      ['a label by which the chart finds its pods', { podLabels: { 'app.kubernetes.io/name': 'a' } }, 'podLabels contains app.kubernetes.io/name, which the chart sets itself: take another label.'],
      ['a schedule that is none', { verifyStore: { schedule: 'whenever' } }, 'verifyStore.schedule must be five fields of cron, such as "23 3 * * 0", or a name such as @weekly; it is "whenever".'],
      ['an interval that is none', { serviceMonitor: { interval: 'soon' } }, 'serviceMonitor.interval must be a duration of Prometheus, such as 30s; it is "soon".'],
      ['a URL as a host', { ingress: { enabled: true, host: 'https://load.example.com' } }, 'ingress.host must be a host name in lower case, without https:// and a port; it is "https://load.example.com".'],
      ['an address that nothing outside the pod reaches', { config: { HOST: '127.0.0.1' } }, "at '/config/HOST': value must be one of '0.0.0.0', '::'"],
      ['a budget that keeps nodes from being drained', merged(distributed, { podDisruptionBudget: { maxUnavailable: 0 } }), "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1"],
      ['a set-up of the embedded provider', { identitySetup: { enabled: true } }, 'identitySetup is enabled, but IDENTITY_PROVIDER embedded needs no set-up: it is for keycloak and auth0.'],
      ['a set-up without an administrator', merged(distributed, { identitySetup: { enabled: true, existingSecret: 'a', keys: keys(['KEYCLOAK_ADMIN_USERNAME']) } }), 'identitySetup needs identitySetup.existingSecret, and its keys for KEYCLOAK_ADMIN_USERNAME and KEYCLOAK_ADMIN_PASSWORD in identitySetup.keys.'],
      ['to verify a store that only its module knows', { config: { FILE_STORAGE: 'module:./store.js' }, verifyStore: { enabled: true } }, 'verifyStore is enabled, but only FILE_STORAGE local, s3 and azure can be checked by it.'],
      ['to verify a volume of one pod', { verifyStore: { enabled: true }, persistence: { accessMode: 'ReadWriteOncePod' } }, "verifyStore is enabled, but a volume with persistence.accessMode ReadWriteOncePod can't be read by a second pod: use ReadWriteOnce."],
    ])('%s', async (_, values, sentence) => {
      await expect(template(values)).rejects.toThrow(sentence);
    });

    it.each(['EMBEDDED_ADMIN_SECRET', 'KEYCLOAK_CLIENT_SECRET', 'AUTH0_CLIENT_SECRET', 'AZURE_STORAGE_CONNECTION_STRING', 'EVENTS_WEBHOOK_URL', 'EVENTS_WEBHOOK_SECRET', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'])('the value of %s, without repeating it', async (name) => {
      const failures = await Promise.all([{ config: { [name]: 'hunter2' } }, { extraEnv: [{ name, value: 'hunter2' }] }].map((values) => template(values).then(String, String)));
      expect(failures[0]).toContain(`config contains ${name}, which is a secret: put it into a Secret, and name its key in secret.keys.`);
      expect(failures[1]).toContain(`extraEnv contains the value of ${name}, which is a secret: put it into a Secret, and name its key in secret.keys.`);
      for (const failure of failures) expect(failure.replaceAll(/Command failed.*/g, '')).not.toContain('hunter2');
    });

    it.each<[string, Values]>([
      ['sizes', { persistence: { size: '0.5Ti' } }],
      ['names', { nameOverride: 'load', fullnameOverride: 'load-data-2' }],
      ['labels', { podLabels: { team: 'a', 'app.kubernetes.io/part-of': 'grid' } }],
      ['schedules', { verifyStore: { schedule: '*/15 0-6,22 1 JAN ?' } }],
      ['names of schedules', { verifyStore: { schedule: '@weekly' } }],
      ['intervals', { serviceMonitor: { interval: '1m30s' } }],
      ['shares of a core', { autoscaling: { targetCPU: '1.5' } }],
      ['addresses of pods with IPv6 only', { config: { HOST: '::' } }],
    ])('no other %s', async (_, values) => {
      await template(values);
    });

    it('all problems at once', async () => {
      const failure = await template({ shape: 'distributed', ingress: { enabled: true } }).then(String, String);
      expect(failure.match(/^- .*$/gm)).toHaveLength(3);
    });

    it('nothing that an own variable may supply', async () => {
      const secretKeyRef = { name: 's', key: 'k' };
      await template({ ...distributed, secret: {}, extraEnv: [{ name: 'KEYCLOAK_CLIENT_SECRET', valueFrom: { secretKeyRef } }] });
      await template({ ...distributed, secret: {}, extraEnv: [{ name: 'KEYCLOAK_CLIENT_SECRET_FILE', value: '/secrets/a' }] });
      await template({ ...distributed, secret: {}, extraEnvFrom: [{ secretRef: { name: 's' } }] });
    });
  });
});
