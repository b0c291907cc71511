import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readManifests, runHelm } from '../servers/helm.mjs';

export const CHART = 'deploy/helm/load-data-service';
export const RELEASE = 'load-data-service';

export type Values = Readonly<Record<string, unknown>>;

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds?: number;
  readonly failureThreshold?: number;
  readonly timeoutSeconds?: number;
}

interface SpreadConstraint {
  readonly topologyKey: string;
  readonly maxSkew: number;
  readonly whenUnsatisfiable: string;
  readonly matchLabelKeys: readonly string[];
  readonly labelSelector: { readonly matchLabels: Labels };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly env: readonly Variable[];
  readonly envFrom?: readonly object[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly resources: object;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}

interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly containers: readonly [Container];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly terminationGracePeriodSeconds: number;
  readonly affinity?: object;
  readonly topologySpreadConstraints?: readonly SpreadConstraint[];
  readonly volumes: readonly { readonly name: string; readonly [source: string]: unknown }[];
}

export type Labels = Readonly<Record<string, string>>;

export interface Pod {
  readonly metadata: { readonly labels: Labels };
  readonly spec: PodSpec;
}

export interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels; readonly annotations?: Labels };
  /** The object's specification. A ServiceAccount has none. */
  readonly spec?: {
    readonly replicas?: number;
    readonly activeDeadlineSeconds?: number;
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly template?: Pod;
    readonly jobTemplate?: { readonly spec: { readonly template: Pod } };
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly endpoints?: readonly { readonly path: string; readonly port: string; readonly relabelings?: readonly { readonly targetLabel: string; readonly replacement: string }[] }[];
    readonly groups?: readonly { readonly rules: readonly object[] }[];
    readonly ports?: readonly { readonly name: string; readonly targetPort: string }[];
    readonly rules?: readonly { readonly http: { readonly paths: readonly { readonly path: string; readonly pathType: string }[] } }[];
  };
}

const isObject = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Merges values for a Helm chart. Later values replace earlier ones, as in Helm. */
export const merged = (...all: readonly Values[]): Values =>
  all.reduce((result, values) => {
    const entries = Object.entries(values).map(([name, value]) => [name, isObject(value) && isObject(result[name]) ? merged(result[name], value) : value]);
    return { ...result, ...(Object.fromEntries(entries) as Values) };
  }, {});

export const configured = (config: Values, ...secrets: readonly string[]): Values => ({
  config,
  ...(secrets.length > 0 && { secret: { existingSecret: 'load-data', keys: Object.fromEntries(secrets.map((name) => [name, name])) } }),
});

export const STORES = {
  local: {},
  s3: configured({ FILE_STORAGE: 's3', S3_BUCKET: 'load-data', S3_REGION: 'eu-central-1', S3_FORCE_PATH_STYLE: true }, 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'),
  'azure by URL': configured({ FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'load-data', AZURE_STORAGE_ACCOUNT_URL: 'https://example.blob.core.windows.net' }),
  'azure by connection string': configured({ FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'load-data' }, 'AZURE_STORAGE_CONNECTION_STRING'),
  'own store': configured({ FILE_STORAGE: 'module:./store.js' }),
} satisfies Record<string, Values>;

export const PROVIDERS = {
  embedded: {},
  keycloak: configured({ IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_URL: 'https://id.example.com', KEYCLOAK_REALM: 'load-data', KEYCLOAK_CLIENT_ID: 'load-data-service' }, 'KEYCLOAK_CLIENT_SECRET'),
  auth0: configured({ IDENTITY_PROVIDER: 'auth0', AUTH0_DOMAIN: 'tenant.eu.auth0.com', AUTH0_CLIENT_ID: 'abc', OIDC_AUDIENCE: 'https://load.example.com' }, 'AUTH0_CLIENT_SECRET'),
  'own provider': configured({ IDENTITY_PROVIDER: 'module:./provider.js' }),
} satisfies Record<string, Values>;

const SECRETS: Readonly<Record<string, string>> = {
  EVENTS_WEBHOOK_URL: 'https://hooks.example.com/a1b2',
  EVENTS_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}`,
  EMBEDDED_ADMIN_SECRET: 'a-secret-of-the-administrator',
};
export const secretOf = (name: string): string => SECRETS[name] ?? `the-secret-${name}`;

export const ofKind = (objects: readonly Manifest[], ...kinds: readonly string[]): Manifest | undefined => objects.find(({ kind }) => kinds.includes(kind));

export const podsOf = (objects: readonly Manifest[]): { kind: string; pod: Pod }[] =>
  objects.flatMap(({ kind, spec }) => {
    const pod = kind === 'CronJob' ? spec?.jobTemplate?.spec.template : spec?.template;
    return pod ? [{ kind, pod }] : [];
  });

export function pod(objects: readonly Manifest[], ...kinds: readonly string[]): Pod {
  const found = podsOf(objects).find(({ kind }) => kinds.includes(kind));
  if (!found) throw new Error(`There is no ${kinds.join(' or ')}.`);
  return found.pod;
}

export const servicePod = (objects: readonly Manifest[]): Pod => pod(objects, 'StatefulSet', 'Deployment');

export const environmentOf = ({ env }: Container, valueOf = secretOf): Record<string, string> =>
  Object.fromEntries(env.map(({ name, value, valueFrom }) => [name, valueFrom ? valueOf(valueFrom.secretKeyRef.key) : (value ?? '')]));

export const selects = (selector: Labels, labels: Labels): boolean => Object.entries(selector).every(([name, value]) => labels[name] === value);

export class Chart {
  private count = 0;

  private constructor(readonly directory: string) {}

  static async create(): Promise<Chart> {
    return new Chart(await mkdtemp(join(tmpdir(), 'helm-')));
  }

  /** Renders the chart with these values. Rejects with Helm's message if the chart refuses the values. */
  async template(values: Values, { chart = CHART, parameters = [] }: { chart?: string; parameters?: readonly string[] } = {}): Promise<string> {
    const file = join(this.directory, `values-${this.count++}.json`);
    await writeFile(file, JSON.stringify(values));
    return runHelm(['template', RELEASE, chart, '--namespace', 'load', '--kube-version', '1.34', '--values', file, ...parameters]);
  }

  async render(values: Values): Promise<readonly Manifest[]> {
    const { objects } = await readManifests([await this.template(values)], []);
    return objects[0] as Manifest[];
  }

  async dispose(): Promise<void> {
    await rm(this.directory, { recursive: true });
  }
}
