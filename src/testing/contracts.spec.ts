import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { built } from '../../test/support/built.js';
import { CollectingRunner } from '../../test/support/collecting-runner.js';
import type { ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import type { User } from '../identity-management/domain/user.js';
import { bucketContract, eventOutboxContract, fileStorageContract, identityProviderContract, storedUploadsContract, uploadEventsContract } from './contracts.js';
import { InMemoryIdentityProvider } from './in-memory.identity-provider.js';

// Another process imports dist.
await built();

const missing = new Error('not implemented');
/** Returns an adapter that throws when any of its members is used. */
const nothing = (): never =>
  new Proxy(
    {},
    {
      get: () => {
        throw missing;
      },
    },
  ) as never;
const setUp = () => Promise.resolve({ storage: nothing(), provider: nothing(), bucket: nothing(), neighbour: nothing(), withClockAhead: nothing(), without: nothing(), events: nothing(), tearDown: () => Promise.resolve() } as never);

const PORTS = [
  ['FileStorage', 'src/ingestion/application/ports/file-storage.port.ts', fileStorageContract],
  ['StoredUploads', 'src/ingestion/application/ports/stored-uploads.port.ts', storedUploadsContract],
  ['EventOutbox', 'src/ingestion/application/ports/event-outbox.port.ts', eventOutboxContract],
  ['UploadEvents', 'src/ingestion/application/ports/upload-events.port.ts', uploadEventsContract],
  ['IdentityProvider', 'src/identity-management/application/ports/identity-provider.port.ts', identityProviderContract],
  ['Bucket', 'src/ingestion/adapters/out/object-storage/bucket.ts', bucketContract],
] as const;

describe.each(PORTS)('a failure of the suite of %s', (port, file, contract) => {
  it('names the promise that is broken, in the words of the port, and what to do', async () => {
    const runner = new CollectingRunner();
    contract('nothing', setUp, runner);
    const comments = (await readFile(file, 'utf8')).replaceAll(/\s+\*?\s*/g, ' ');
    const failures = await runner.failures();
    expect(failures.size).toBe(runner.tests.length);
    for (const [title, message] of failures) {
      const [, name, sentence = '', advice = ''] = /^(\w+) promises: "(.+)"\n(.+)\n\n/.exec(message) ?? [];
      expect([title, name, advice.endsWith('.'), comments.includes(sentence) ? '' : sentence]).toEqual([title, port, true, '']);
    }
  });
});

it.each(PORTS)('the suite of %s has as many tests as docs/testing.md says', async (_port, _file, contract) => {
  const runner = new CollectingRunner();
  contract('nothing', setUp, runner);
  const [, tests] = new RegExp(`^\\| \`${contract.name}\` \\| (\\d+) \\|`, 'm').exec(await readFile('docs/testing.md', 'utf8')) ?? [];
  expect(Number(tests)).toBe(runner.tests.length);
});

describe('the suite of IdentityProvider, of a list that ends when the signal aborts,', () => {
  class OnePage extends InMemoryIdentityProvider {
    constructor(private readonly length: number) {
      super();
    }

    override async *listUsers(options: ProviderCallOptions): AsyncGenerator<readonly User[]> {
      const users: User[] = [];
      for await (const page of super.listUsers(options)) users.push(...page);
      yield users.slice(0, this.length);
    }
  }

  it.each([
    ['accepts one that was whole', Infinity, []],
    ['fails for one that was not', 9, [expect.stringMatching(/\n\nThe list ended after its first page as if it were whole\.$/)]],
  ])('%s', async (_, length, messages) => {
    const runner = new CollectingRunner();
    const provider = new OnePage(length);
    const setting = { provider, moreThanOnePage: 10, unknownUserId: '', unknownRoleId: '', reopen: () => Promise.resolve(provider), permissionsOf: () => Promise.resolve([]), tearDown: () => undefined };
    identityProviderContract('one page', () => Promise.resolve(setting), runner);
    expect([...(await runner.failures(/between two pages/)).values()]).toEqual(messages);
  });
});

describe('a suite without a runner as its last argument', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it.each(PORTS)('takes the global functions of the runner: %s', (_, __, contract) => {
    const runner = new CollectingRunner();
    for (const name of ['describe', 'it', 'beforeEach', 'afterEach'] as const) vi.stubGlobal(name, runner[name]);
    contract('nothing', setUp);
    expect(runner.tests.length).toBeGreaterThan(0);
  });

  it('is refused where no runner is found, with what to do', async () => {
    const module = new URL('../../dist/testing/contracts.js', import.meta.url).href;
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', `(await import('${module}')).fileStorageContract('nothing', () => {})`]);
    await expect(run).rejects.toThrow(/TypeError: No test runner found: pass \{ describe, it, beforeEach, afterEach \} of yours as the last argument/);
  });
});
