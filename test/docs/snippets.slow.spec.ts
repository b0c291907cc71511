import { execFile, spawn } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageDirectory } from '../support/package-directory.js';
import { Program } from '../support/process.js';
import { startService } from '../support/service.js';
import { expectToTakeEvents } from '../support/webhook-example.js';
import { SECRET, secretText } from '../support/webhook-receiver.js';

const run = promisify(execFile);
let directory: string;
beforeAll(async () => {
  directory = await packageDirectory('snippets');
});
afterAll(() => rm(directory, { recursive: true }));

async function snippets(page: string, language = 'ts'): Promise<string[]> {
  return [...(await readFile(page, 'utf8')).matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``, 'g'))].map(([, code = '']) => code);
}

describe('README', () => {
  it('shows how to swap an adapter in a test in ten lines that run', async () => {
    const code = (await snippets('README.md')).find((snippet) => snippet.includes('InMemoryFileStorage')) ?? '';
    const check = `
      const url = (await app.getUrl()) + '/ingestNowcastLoadData/upload_nowcast?customer_id=a&filename=b&manufacturer=c';
      const failed = await fetch(url, { method: 'POST' });
      storage.recover();
      const stored = await fetch(url, { method: 'POST' });
      console.log(failed.status, await failed.text(), stored.status, storage.uploads.length);
      await app.close();`;
    const { outputText } = ts.transpileModule(code + check, { compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext } });
    const file = join(directory, 'snippet.mjs');
    await writeFile(file, outputText);
    const { stdout } = await run(process.execPath, [file], { env: { ...process.env, NO_COLOR: '1' } });
    expect(stdout.trim().split('\n').at(-1)).toBe('500 {"error":"Internal server error."} 200 1');
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(10);
  });
});

describe("README's client", () => {
  it('uploads in ten lines that run', async () => {
    const code = (await snippets('README.md')).find((snippet) => snippet.includes('LoadDataClient')) ?? '';
    const service = await startService();
    try {
      const { outputText } = ts.transpileModule(code.replace('http://127.0.0.1:3000', service.url), { compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext } });
      const file = join(directory, 'client.mjs');
      await writeFile(file, outputText);
      const { stdout } = await run(process.execPath, [file]);
      const [line] = await service.lines();
      expect(stdout.split('\n')).toEqual(expect.arrayContaining(['4497 of 4497 bytes', expect.stringContaining(String(line?.upload_id))]));
      expect(code.trim().split('\n').length).toBeLessThanOrEqual(10);
    } finally {
      await service.close();
    }
  });
});

describe('the webhook in docs/telling-uploads.md', () => {
  it('takes events once, and refuses those that are signed with another secret', async () => {
    const [code = ''] = await snippets('docs/telling-uploads.md', 'js');
    const file = join(directory, 'webhook.mjs');
    await writeFile(file, code.replace('.listen(8080)', ".listen(0, '127.0.0.1', function () { console.log(`port ${this.address().port}`); })"));
    await expectToTakeEvents(new Program(spawn(process.execPath, [file], { env: { ...process.env, EVENTS_WEBHOOK_SECRET: secretText(SECRET) } })), 400);
  });
});

describe('the TypeScript in docs/receivers.md and docs/telling-uploads.md', () => {
  it('has no type error in a project with strict settings', async () => {
    const [nats = '', whole = ''] = await snippets('docs/receivers.md');
    const [broker = ''] = await snippets('docs/telling-uploads.md');
    // The page leaves out where the store comes from.
    const store = 'const { fileStorage } = {} as Parameters<typeof IngestionModule.forRoot>[0];\n';
    const pages = { 'nats-upload-events.ts': nats, 'main.ts': whole, 'broker.ts': store + broker };
    for (const [name, code] of Object.entries(pages)) await writeFile(join(directory, name), code);
    const program = ts.createProgram(Object.keys(pages).map((name) => join(directory, name)), {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      types: ['node'],
      strict: true,
      noUncheckedIndexedAccess: true,
      noImplicitOverride: true,
      skipLibCheck: true,
      noEmit: true,
    });
    const problems = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
    expect(problems).toEqual([]);
  });
});
