import { spawnSync } from 'node:child_process';
import { appendFile, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageDirectory } from '../support/package-directory.js';

const FORBIDDEN = [
  ['ingestion/domain/layout.ts', '../application/upload-load-data.use-case.js', 'domain-imports-domain-and-common-only'],
  ['ingestion/domain/layout.ts', '@nestjs/common', 'domain-imports-domain-and-common-only'],
  ['identity-management/domain/user.ts', 'node:crypto', 'domain-imports-domain-and-common-only'],
  ['ingestion/application/upload-load-data.use-case.ts', '../adapters/in/http/upload-body.js', 'application-imports-no-adapter-and-no-transport'],
  ['identity-management/application/create-role.use-case.ts', '../../http/error-table.js', 'application-imports-no-adapter-and-no-transport'],
  ['ingestion/ingestion.module.ts', '../identity-management/domain/user.js', 'features-stay-apart'],
  [
    'ingestion/adapters/in/http/upload.controller.ts',
    '../../out/local-disk/local-disk.file-storage.adapter.js',
    'ways-in-and-out-meet-in-the-application-only',
  ],
  [
    'app/file-storage.factory.ts',
    '../ingestion/adapters/out/object-storage/s3/s3.bucket.js',
    'sdks-of-stores-are-loaded-when-they-are-chosen',
  ],
  ['operations/logging.ts', '@opentelemetry/api', 'opentelemetry-stays-in-its-room'],
  ['app/create-app.ts', '../operations/tracing/tracing.js', 'opentelemetry-is-loaded-when-it-is-asked-for'],
  ['common/turns.ts', '../configuration/variables.js', 'common-imports-nothing-of-ours'],
  ['http/exchange.ts', '../authentication/claims.js', 'http-knows-common-only'],
  ['authentication/claims.ts', '../ingestion/domain/upload.js', 'authentication-knows-no-feature'],
  ['ingestion/adapters/out/local-disk/recovery.ts', './store-verification/layout-walk.js', 'only-commands-import-commands-and-their-tools'],
  ['identity-management/adapters/out/keycloak/realm-check.ts', './realm-setup.js', 'only-commands-import-commands-and-their-tools'],
  ['ingestion/adapters/out/object-storage/compactor.ts', './compaction-run.js', 'only-commands-import-commands-and-their-tools'],
  ['ingestion/adapters/out/object-storage/sweeper.ts', './compaction-report.js', 'only-commands-import-commands-and-their-tools'],
  ['app/create-app.ts', '../common/report-text.js', 'only-commands-import-commands-and-their-tools'],
  ['operations/logging.ts', '../common/progress-bar.js', 'only-commands-import-commands-and-their-tools'],
  ['operations/ready-line.ts', '../ingestion/ingestion.module.js', 'operations-know-ports-and-domains-only'],
  ['app/app.module.ts', '../testing/in-memory.file-storage.js', 'nothing-served-imports-testing'],
  ['client/repeats.ts', 'node:timers', 'the-client-runs-in-browsers'],
  ['app/app.module.ts', '../client/errors.js', 'nothing-served-imports-the-client'],
  ['http/exchange.ts', 'rxjs', 'nothing-imports-rxjs'],
  ['common/fair-queue.ts', './memory-budget.js', 'no-circular'],
] as const;

let copy: string;
beforeAll(async () => {
  copy = await packageDirectory('boundaries');
  await cp('src', join(copy, 'src'), { recursive: true });
});
afterAll(() => rm(copy, { recursive: true }));

const check = (folder = join(copy, 'src')): { status: number | null; stderr: string } =>
  spawnSync(process.execPath, ['test/boundaries.mjs', folder], { encoding: 'utf8' });

describe('the boundary check of npm run lint', () => {
  it('is part of lint', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    expect(scripts.lint).toContain('&& node test/boundaries.mjs');
  });

  it('passes on the current code', () => {
    expect(check()).toMatchObject({ status: 0, stderr: '' });
  });

  // One check for all of this, because each takes seconds of processor time.
  it('fails when forbidden imports are planted, a file or directory is outside the rooms, and files are long', async () => {
    const src = join(copy, 'src');
    for (const [file, specifier] of FORBIDDEN) {
      const path = join(src, file);
      await writeFile(path, `import * as planted from '${specifier}';\nexport const used = planted;\n${await readFile(path, 'utf8')}`);
    }
    await writeFile(join(src, 'loose.ts'), 'export {};\n');
    await mkdir(join(src, 'helpers'));
    for (const name of await readdir(src, { recursive: true })) if (/(?<!\.spec)\.ts$/.test(name)) await appendFile(join(src, name), '\n'.repeat(20));
    await appendFile(join(src, 'main.ts'), '\n'.repeat(350));
    const { status, stderr } = check();
    const found = stderr.replaceAll(`${copy}/`, '').split('\n');
    expect(found.map((line) => line.split(' -> ')[0])).toEqual(expect.arrayContaining(FORBIDDEN.map(([file, , rule]) => `${rule}: src/${file}`)));
    expect(found).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^src\/loose\.ts: /),
        expect.stringMatching(/^src\/helpers: /),
        expect.stringMatching(/^src\/main\.ts: 3\d\d lines, more than 350$/),
        expect.stringMatching(/^src: half of the files have \d+ lines or more, which is above 69$/),
      ]) as string[],
    );
    expect(status).toBe(1);
  });

  it('fails when a rule matches no file', async () => {
    // Rooms of one file, which are checked quickly, without `common` and `operations`.
    const few = join(copy, 'few');
    for (const room of ['app', 'client', 'http']) {
      await mkdir(join(few, room), { recursive: true });
      await writeFile(join(few, room, 'alone.ts'), 'export {};\n');
    }
    const { status, stderr } = check(few);
    const idle = stderr.split('\n').filter((line) => line.endsWith(': matches no file'));
    expect(idle).toEqual(expect.arrayContaining(['common-imports-nothing-of-ours', 'operations-know-ports-and-domains-only'].map((rule) => `${rule}: matches no file`)));
    expect(idle.filter((line) => /^(?:http-knows-common-only|the-client-runs-in-browsers):/.test(line))).toEqual([]);
    expect(status).toBe(1);
  });
});
