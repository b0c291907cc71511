import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApp, EnvironmentError } from '../../src/app/index.js';
import { loadEnvironmentWithAdapters } from '../../src/app/load-environment.js';
import { AuthenticationModule } from '../../src/index.js';
import { InMemoryFileStorage, InMemoryIdentityProvider } from '../../src/testing/index.js';
import { packageDirectory } from '../support/package-directory.js';
import { type Program, ready, type ServiceProcess, type Variables, Workspace } from '../support/process.js';

const STORAGE = `
  import { writeFileSync } from 'node:fs';
  import { InMemoryFileStorage } from 'load-data-service/testing';
  export class TeamStorage extends InMemoryFileStorage {
    constructor(url) {
      super();
      this.url = url;
    }
    async store(draft) {
      const receipt = await super.store(draft);
      writeFileSync('stored', this.url);
      return receipt;
    }
    onApplicationShutdown() {
      writeFileSync('closed', this.url);
    }
  }`;

const PROVIDER = `
  import { InMemoryIdentityProvider, jwkOf, rsaKey, signToken } from 'load-data-service/testing';
  import { writeFileSync } from 'node:fs';
  const key = rsaKey();
  export default {
    create: () => new InMemoryIdentityProvider(),
    authentication: (variables, { oidc: { audience } }) => {
      const claims = { iss: variables.TEAM_ISSUER, aud: audience, sub: 'ada', exp: Date.now() / 1000 + 60 | 0, permissions: ['read:users'] };
      writeFileSync('token', signToken(key, { alg: 'RS256', kid: 'k' }, claims));
      return { issuer: variables.TEAM_ISSUER, audience, keySet: { load: async () => ({ keys: [jwkOf(key, { kid: 'k' })] }) } };
    },
  };`;

/** For each variable that names a team's adapter module, the adapters that the app uses for everything else. */
const OTHERS = {
  FILE_STORAGE: {
    identityProvider: new InMemoryIdentityProvider(),
    authentication: AuthenticationModule.forRoot({ issuer: 'https://login.example', audience: 'a', keySet: { load: () => Promise.resolve({ keys: [] }) } }),
  },
  IDENTITY_PROVIDER: { fileStorage: new InMemoryFileStorage() },
};

describe("a team's adapter, named by a variable", () => {
  let workspace: Workspace;
  let directory: string;

  beforeAll(async () => {
    workspace = await Workspace.create();
    directory = resolve(await packageDirectory('adapters'));
    const pages = await readFile('docs/adapters.md', 'utf8');
    const [example = ''] = [...pages.matchAll(/```ts\n([^]*?)```/g)].map(([, code = '']) => code).filter((code) => code.includes('satisfies FileStorageAdapter'));
    const { outputText } = ts.transpileModule(example, { compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext } });
    await writeFile(join(directory, 'team-store.js'), outputText);
    await writeFile(join(directory, 'team-storage.js'), STORAGE);
    await writeFile(join(directory, 'team-provider.js'), PROVIDER);
    const inPackage = join(directory, 'node_modules/team-provider');
    await mkdir(inPackage, { recursive: true });
    await writeFile(join(inPackage, 'package.json'), JSON.stringify({ name: 'team-provider', type: 'module', exports: './index.js' }));
    await writeFile(join(inPackage, 'index.js'), "export { default } from '../../team-provider.js';");
    await writeFile(join(directory, 'broken.js'), 'throw new Error("no licence");');
    const secrets = `import { z } from 'zod';
      const wrong = z.string().refine(() => false, 'is wrong');
      const variables = z.object({ TEAM_LOGIN: wrong, TEAM_API_KEY: wrong, TEAM_REGION: wrong }).refine(() => false, { message: 'do not fit\\ntogether', when: () => true });
      export default { variables, secrets: ['TEAM_LOGIN'], create() {}, authentication() {} };`;
    await writeFile(join(directory, 'team-secrets.js'), secrets);
    const store = "import { InMemoryFileStorage } from 'load-data-service/testing';\nimport { z } from 'zod';\n";
    await writeFile(join(directory, 'own-names.js'), `${store}export default { variables: z.object({ S3_TEAM_CLASS: z.string(), KEYCLOAK_URL: z.string().optional() }), create: () => new InMemoryFileStorage() };`);
    await writeFile(join(directory, 'no-schema.js'), `${store}export default { create: () => new InMemoryFileStorage() };`);
    await writeFile(join(directory, 'nothing.js'), 'export const create = 1;');
    await writeFile(join(directory, 'half.js'), 'export default { create: () => ({ store() {} }) };');
    await writeFile(join(directory, 'half-open.js'), "export default { create: () => ({ store() {}, onApplicationShutdown: () => { globalThis.closedHalf = true; throw new Error('no route'); } }) };");
    await writeFile(join(directory, 'throwing.js'), 'export default { create: () => { throw new Error("no route\\nto host"); } };');
    await writeFile(join(directory, 'unreachable.js'), 'export default { create: async () => { throw new Error("no route\\nto host"); } };');
  });
  afterAll(async () => {
    await workspace.dispose();
    await rm(directory, { recursive: true });
  });

  const launch = (variables: Variables): Program => workspace.run(process.execPath, [resolve('dist/main.js')], variables, directory);
  const start = (variables: Variables): Promise<ServiceProcess> => ready(launch(variables));

  it('stores uploads and manages users, in the form that docs/adapters.md shows, and is closed at the end', async () => {
    const service = await start({
      FILE_STORAGE: 'module:./team-store.js',
      TEAM_STORE_URL: 'https://store.example',
      // A package that is installed only in the working directory's node_modules, and not in the service's.
      IDENTITY_PROVIDER: 'module:team-provider',
      TEAM_ISSUER: 'https://login.example',
    });
    const query = 'customer_id=a&filename=b.csv&manufacturer=c';
    const answer = await fetch(`${service.url}/ingestHistoricalLoadData/upload_historical?${query}`, { method: 'POST', body: 'x' });
    expect(answer.status).toBe(200);
    expect(await readFile(join(directory, 'stored'), 'utf8')).toBe('https://store.example');

    const users = async (token: string) => {
      const listed = await fetch(`${service.url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } });
      return [listed.status, await listed.json()];
    };
    expect(await users(await readFile(join(directory, 'token'), 'utf8'))).toEqual([200, { users: [] }]);
    expect(await users('x')).toEqual([403, { error: 'Unauthorized.' }]);
    expect((await fetch(`${service.url}/docs-json`)).status).toBe(200);

    expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(await readFile(join(directory, 'closed'), 'utf8')).toBe('https://store.example');
  });

  it('is refused like a variable of the service, before a port is opened', async () => {
    const program = launch({ FILE_STORAGE: 'module:./team-store.js', TEAM_STORE_URL: 'x-secret' });
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect({ stderr: program.stderr, stdout: program.stdout }).toEqual({ stderr: 'TEAM_STORE_URL: must be a URL; it is "x-secret"\n', stdout: '' });
  });

  it("is refused together with the service's own variables and those of the other module, without secret values", async () => {
    const program = launch({ FILE_STORAGE: 'module:./team-store.js', IDENTITY_PROVIDER: 'module:./team-secrets.js', TEAM_STORE_URL: 'x', TEAM_LOGIN: 'hush', TEAM_API_KEY: 'hush', TEAM_REGION: 'y', PORT: 'z' });
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect(program.stderr.trim().split('\n')).toEqual([
      'PORT: must be a whole number from 0 to 65535; it is "z"',
      'TEAM_STORE_URL: must be a URL; it is "x"',
      'TEAM_LOGIN: is wrong',
      'TEAM_API_KEY: is wrong',
      'TEAM_REGION: is wrong; it is "y"',
      'IDENTITY_PROVIDER: do not fit together; it is "module:./team-secrets.js"',
    ]);
  });

  it.each<[string, string, Variables, string[]]>([
    [
      'has similar ones',
      'team-store.js',
      { TEAM_STORE_URL: 'https://store.example', TEAM_STORE_ULR: 'a', TEAM_STORE_URLADR: 'b', TEAM_STORE_OWNER: 'c', TEAM_NAME: 'd' },
      ['TEAM_STORE_ULR: unknown variable, without effect: did you mean TEAM_STORE_URL?', 'TEAM_STORE_URLADR: unknown variable, without effect: did you mean TEAM_STORE_URL?'],
    ],
    ['declares them', 'own-names.js', { S3_TEAM_CLASS: 'a', KEYCLOAK_URL: 'b' }, []],
    ['declares others', 'own-names.js', { S3_TEAM_CLASS: 'a', S3_TEAM: 'b' }, ['S3_TEAM: unknown variable, without effect']],
    ['declares none', 'no-schema.js', { S3_TEAM_CLASS: 'a', KEYCLOAK_URL: 'b', RATE_LIMIT_PER_MINUT: '1' }, ['RATE_LIMIT_PER_MINUT: not a variable of the service: did you mean RATE_LIMIT_PER_MINUTE?']],
  ])('that %s is never said to ignore variables that it reads', async (_, module, variables, warnings) => {
    const environment = await loadEnvironmentWithAdapters({ FILE_STORAGE: `module:${directory}/${module}`, ...variables });
    expect(environment.warnings).toEqual(warnings);
  });

  it.each<[string, string, string, RegExp]>([
    ['its variable is missing', 'FILE_STORAGE', './team-store.js', /^TEAM_STORE_URL: .+$/],
    ['there is no such file', 'FILE_STORAGE', './absent.js', /^FILE_STORAGE: .*absent\.js can't be imported: .+$/],
    ['there is no such package', 'FILE_STORAGE', 'absent-package', /^FILE_STORAGE: absent-package can't be imported: .+$/],
    ['the module fails', 'FILE_STORAGE', './broken.js', /^FILE_STORAGE: .*broken\.js can't be imported: no licence$/],
    ['there is no default export', 'FILE_STORAGE', './nothing.js', /^FILE_STORAGE: the default export of .*nothing\.js has no function "create"$/],
    ['the adapter is incomplete', 'FILE_STORAGE', './half.js', /^FILE_STORAGE: the adapter of .*half\.js has no method "checkHealth"$/],
    ['the adapter cannot be created', 'FILE_STORAGE', './unreachable.js', /^FILE_STORAGE: .*unreachable\.js can't create its adapter: no route to host$/],
    ['creating the adapter throws', 'FILE_STORAGE', './throwing.js', /^FILE_STORAGE: .*throwing\.js can't create its adapter: no route to host$/],
    ['the provider names no tokens', 'IDENTITY_PROVIDER', './team-store.js', /^IDENTITY_PROVIDER: the default export of .*team-store\.js has no function "authentication"$/],
    ['nothing is named', 'FILE_STORAGE', '', /^FILE_STORAGE: must be "local" or "s3" or "azure", or "module:" and a path or package; it is "module:"$/],
  ])('is refused in one line if %s', async (_, variable, module, line) => {
    const specifier = module.replace(/^\./, directory);
    const created = createApp({ ...OTHERS[variable as keyof typeof OTHERS], environment: { DATA_DIR: workspace.data, LOG_LEVEL: 'silent', [variable]: `module:${specifier}` } });
    await expect(created).rejects.toThrow(EnvironmentError);
    await expect(created).rejects.toThrow(line);
  });

  it('is closed if it is refused because it is incomplete, even if closing it fails', async () => {
    const environment = { DATA_DIR: workspace.data, LOG_LEVEL: 'silent', FILE_STORAGE: `module:${directory}/half-open.js` };
    await expect(createApp({ ...OTHERS.FILE_STORAGE, environment })).rejects.toThrow(/^FILE_STORAGE: the adapter of .*half-open\.js has no method "checkHealth"$/);
    expect(globalThis).toHaveProperty('closedHalf', true);
  });

  it.each([
    ['verify', /^FILE_STORAGE is a module, /],
    ['compact', /^FILE_STORAGE is a module, /],
  ])('is none that %s works with', async (command, line) => {
    const program = workspace.run(process.execPath, [resolve('dist/main.js'), command], { FILE_STORAGE: 'module:./team-store.js' }, directory);
    expect((await program.exited).code).toBe(2);
    expect(program.stderr).toMatch(line);
  });
});
