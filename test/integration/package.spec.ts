import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { expectBrokenPromisesToFail, packageTests, run } from '../support/packed-package.js';
import { startService } from '../support/service.js';

describe('the packed package in a new application on Nest 12, ES modules', () => {
  const path = packageTests({
    example: 'nest-12',
    nest: '^12.0.0',
    more: { jest: '^30.0.0' },
    resolutions: [['node16', 'node16'], ['esnext', 'bundler']],
    passed: /Tests +52 passed \(52\)/,
  });

  it('reports a broken promise in Vitest, Jest and node:test', () => expectBrokenPromisesToFail(path()), 300_000);

  it('runs the suites in node:test, on the example of a bucket', async () => {
    await cp('examples/bucket', join(path(), 'bucket'), { recursive: true });
    const tests = await run(join(path(), 'bucket'), process.execPath, '--enable-source-maps', '--test', '--test-reporter=tap');
    expect(tests).toMatch(/^# pass 225\n# fail 0$/m);
    // When an adapter breaks a promise, the failure names this promise, with a stack frame in the suite's source.
    const bucket = await readFile('examples/bucket/folder-bucket.js', 'utf8');
    await writeFile(join(path(), 'bucket/folder-bucket.js'), bucket.replace('version !== undefined &&', 'false &&'));
    const failing = run(join(path(), 'bucket'), process.execPath, '--enable-source-maps', '--test', '--test-reporter=tap', '--test-name-pattern=leaves an object of another version unchanged');
    await expect(failing).rejects.toThrow(/Bucket promises: "the new version; undefined if nothing was written, because the object has another version or is missing\."\s+Let the store compare[^]*load-data-service\/src\/testing\/bucket\.contract\.ts:\d+/);
  }, 300_000);

  it('runs the scripts that upload a folder, in TypeScript and Python, twice', async () => {
    const scripts = join(path(), 'upload-folder');
    await cp('examples/upload-folder', scripts, { recursive: true });
    await run(scripts, process.execPath, '../node_modules/typescript/bin/tsc');
    const service = await startService();
    try {
      for (const [customer, program, script] of [['a', process.execPath, 'dist/upload-folder.js'], ['b', 'python3', 'upload_folder.py']] as const) {
        const upload = () => run(scripts, program, script, service.url, customer, 'Landis+Gyr', resolve('docs/examples'));
        const first = await upload();
        const lines = (await service.lines()).filter((line) => line.customer_id === customer);
        expect(lines.map((line) => line.filename).sort()).toEqual((await readdir('docs/examples')).sort());
        for (const line of lines) expect(first).toContain(`${String(line.filename)}: ${String(line.upload_id)}\n`);
        expect(await upload()).toBe(first.replaceAll('\n', ' (stored before)\n'));
      }
      expect(await service.lines()).toHaveLength(6);
    } finally {
      await service.close();
    }
  }, 120_000);
});
