import { readdir, readFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SECRET_FILE_NAMES } from '../../src/configuration/secret-files.js';
import { ERROR_TABLE } from '../../src/http/error-table.js';
import { undocumentedMembers } from '../support/log-page.js';

/** The link anchors of a Markdown page's headings: the headings in lower case, with hyphens in place of blanks. */
const anchors = (page: string): string[] =>
  [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading.toLowerCase().replace(/[^a-z0-9_ -]/g, '').replaceAll(' ', '-'));

/** The `sh` and `bash` blocks of README and the pages of docs. */
async function shellBlocks(): Promise<string[]> {
  const pages = (await readdir('docs')).filter((name) => name.endsWith('.md')).map((name) => join('docs', name));
  const texts = await Promise.all(['README.md', ...pages].map((page) => readFile(page, 'utf8')));
  return texts.flatMap((text) => [...text.matchAll(/^( *)```(?:ba)?sh\n([^]*?)^\1```$/gm)]).map(([, , block = '']) => block);
}

/** The commands of these blocks. A backslash at the end of a line continues a command. */
const shellCommands = async (): Promise<string[]> => (await shellBlocks()).flatMap((block) => block.split(/(?<!\\)\n/));

describe("README's table of commands", () => {
  it('has every script of the package', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    const [, table = ''] = /\n## Commands\n([^]*?)\n## /.exec(await readFile('README.md', 'utf8')) ?? [];
    const documented = [...table.matchAll(/\bnpm (?:run )?(?:--silent )?([\w:]+)/g)].map(([, name]) => name);
    // npm runs those that begin with pre or post itself.
    expect(Object.keys(scripts).filter((name) => !/^(?:pre|post)/.test(name) && !documented.includes(name))).toEqual([]);
  });
});

describe('npm test', () => {
  it('says what it leaves out', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    for (const left of ['test:slow', 'test:integration', 'test:browser']) expect(scripts.posttest).toContain(`npm run ${left}`);
  });
});

describe('the pages', () => {
  it('link only to existing files and headings', async () => {
    const inDirectories = await Promise.all(
      ['docs', 'deploy', 'examples'].map(async (root) => {
        const entries = await readdir(root, { recursive: true });
        return entries.filter((name) => name.endsWith('.md') && !name.split(sep).includes('node_modules')).map((name) => join(root, name));
      }),
    );
    const pages = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', ...inDirectories.flat()];
    expect(pages.length).toBeGreaterThan(50);
    for (const page of pages) {
      for (const [link, path = '', heading] of (await readFile(page, 'utf8')).matchAll(/\]\((?!http)([^)#]*)(?:#([^)]*))?\)/g)) {
        const text = await readFile(path ? join(page, '..', path) : page, 'utf8').catch((error: unknown) => (error as NodeJS.ErrnoException).code);
        expect(text, `${page}: ${link}`).not.toBe('ENOENT');
        if (heading !== undefined) expect(anchors(text ?? ''), `${page}: ${link}`).toContain(heading);
      }
    }
  });

  it('wait for the service only for a limited time', async () => {
    const waiting = (await shellCommands()).filter((command) => /; do .*sleep/.test(command) && /\.log\b|\/health\/ready|docker logs|journalctl/.test(command));
    expect(waiting.length).toBeGreaterThan(10);
    expect(waiting.filter((command) => !/^ *for i in \$\(seq \d+\); do /.test(command))).toEqual([]);
  });

  it('create files with secrets for their own user only', async () => {
    const commands = await shellCommands();
    // A command that writes such a file, or a backup, by redirection, and the paths that `tee` writes.
    const writing = commands.filter((command) => />>? *["$\w./{}-]*\.(?:env|pem|tar)\b/.test(command));
    const teed = commands.flatMap((command) => [...command.matchAll(/\btee (\S+\.(?:env|pem))\b/g)].map(([, path]) => path));
    expect(writing.length).toBeGreaterThan(8);
    expect(writing.filter((command) => command.includes('.tar'))).not.toEqual([]);
    expect(writing.filter((command) => !command.includes('(umask 077; '))).toEqual([]);
    expect(teed.filter((path) => !commands.some((command) => command.includes(`install -m 600 /dev/null ${path}`)))).toEqual([]);
  });

  it('ask for a secret in the last command of a block, because what is pasted after it would be taken for the secret', async () => {
    const asking = (await shellBlocks()).filter((block) => /^read -rs /m.test(block));
    expect(asking.length).toBeGreaterThan(1);
    expect(asking.filter((block) => /^read -rs .*(?<!\|)\n[^]/m.test(block))).toEqual([]);
  });

  it('name no version of the package in a command, because it would be wrong for the next one', async () => {
    // The directory of an earlier version has its tarball too.
    const commands = (await shellCommands()).map((command) => command.replaceAll(/\.\.\/load-data-service-\d\S*/g, ''));
    expect(commands.filter((command) => /load-data-service[-:@]\d+\.\d/.test(command))).toEqual([]);
  });

  it('install and upgrade with Helm from the file that has all values, because an upgrade forgets others', async () => {
    const commands = (await shellCommands()).filter((command) => /\bhelm (?:install|upgrade)\b/.test(command));
    expect(commands.length).toBeGreaterThan(4);
    const asOne = /^helm (?:install|upgrade) load-data-service deploy\/helm\/load-data-service --namespace load-data .*--values load-data\.yaml/;
    expect(commands.filter((command) => !asOne.test(command) || command.includes('reuse-values'))).toEqual([]);
  });

  /** The names of all variables in the schemas of src/configuration. */
  async function variableNames(): Promise<ReadonlySet<string>> {
    const files = (await readdir('src/configuration')).filter((name) => !name.endsWith('.spec.ts'));
    const source = (await Promise.all(files.map((name) => readFile(join('src/configuration', name), 'utf8')))).join('');
    const found = [...source.matchAll(/\b([A-Z][A-Z0-9_]+): (?:z$|z\.|whole|oneOf|adapterName|text|required|plainText|httpUrl)/gm)].map(([, name = '']) => name).filter((name) => name !== 'NODE_ENV');
    return new Set(found);
  }

  it('describe every environment variable in README with its default', async () => {
    const readme = await readFile('README.md', 'utf8');
    const names = await variableNames();
    expect(names.size).toBe(62);
    for (const name of names) expect(readme).toContain(`\`${name}\``);
  });

  it('promise that each secret may be in a file, and it may', async () => {
    const secrets = [...(await variableNames())].filter((name) => /(?:SECRET|PASSWORD|TOKEN|CONNECTION_STRING|ACCESS_KEY|HEADERS)$/.test(name));
    expect(secrets.length).toBeGreaterThan(8);
    expect(secrets.filter((name) => !SECRET_FILE_NAMES.includes(`${name}_FILE`))).toEqual([]);
    const [, promise = ''] = /^(Instead of a secret, .*)$/m.exec(await readFile('README.md', 'utf8')) ?? [];
    const named = SECRET_FILE_NAMES.map((name) => name.replace(/_FILE$/, '')).filter((name) => !/_(?:SECRET|PASSWORD)$/.test(name));
    expect(named.filter((name) => !promise.includes(`\`${name}\``))).toEqual([]);
  });

  it('list every page of docs in its index', async () => {
    const index = await readFile('docs/README.md', 'utf8');
    const pages = (await readdir('docs')).filter((name) => name.endsWith('.md') && name !== 'README.md');
    expect(pages.filter((name) => !index.includes(`](${name})`))).toEqual([]);
  });

  it('list every decision with its title', async () => {
    const pages = (await readdir('docs/adr')).filter((name) => name !== 'README.md').sort();
    const items = pages.map(async (name) => (await readFile(join('docs/adr', name), 'utf8')).replace(/^# (\d+\. )(.*)\n[^]*$/, `$1[$2](${name})`));
    expect((await readFile('docs/adr/README.md', 'utf8')).match(/^\d+\. .*$/gm)).toEqual(await Promise.all(items));
  });

  it('name the suffixes of roles that files of src have', async () => {
    const [, list = ''] = /has the role as its suffix: (.*?)\. /.exec(await readFile('CONTRIBUTING.md', 'utf8')) ?? [];
    const suffixes = [...list.matchAll(/`(\.[a-z-]+\.ts)`/g)].map(([, suffix = '']) => suffix);
    const files = await readdir('src', { recursive: true });
    expect(suffixes).toContain('.port.ts');
    expect(suffixes.filter((suffix) => !files.some((name) => name.endsWith(suffix)))).toEqual([]);
  });

  it('link from secrets as files to the section of README that says which variables', async () => {
    const [, heading = ''] = /which variables\]\(\.\.\/README\.md#([^)]*)\)/.exec(await readFile('docs/deploying.md', 'utf8')) ?? [];
    const section = (await readFile('README.md', 'utf8')).split(/^(?=#+ )/m).find((text) => anchors(text).includes(heading));
    expect(section).toContain('set its variable with `_FILE`');
  });

  it('say how to replace each secret', async () => {
    const page = await readFile('docs/replacing-secrets.md', 'utf8');
    const secrets = SECRET_FILE_NAMES.map((name) => name.replace(/_FILE$/, ''));
    expect(secrets.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  it('lead an operator to metrics, alerts, the runbook and the log', async () => {
    const [operations, growth] = await Promise.all(['docs/operations.md', 'docs/growth-and-quotas.md'].map((page) => readFile(page, 'utf8')));
    for (const page of ['monitoring.md', 'runbook.md', 'log.md']) expect(operations).toContain(`](${page})`);
    for (const text of ['`load_data_disk_free_bytes`', '](runbook.md#loaddatadiskfullinfourhours)']) expect(growth).toContain(text);
  });

  it('name each requirement of ASVS that they count once, and no file that is missing', async () => {
    const page = await readFile('docs/security.md', 'utf8');
    const [, counted] = /The \[standard\][^.]*? has (\d+) requirements/.exec(page.replace(/\(http[^)]*\)/g, '')) ?? [];
    const cells = [...page.matchAll(/^\| (\d+\.\d+\.\d.*?) \|/gm)].map(([, cell = '']) => cell);
    const named = cells.flatMap((cell) =>
      [...cell.matchAll(/(\d+\.\d+)\.(\d+)(?:-\1\.(\d+))?/g)].flatMap(([, section = '', first, last = first]) =>
        Array.from({ length: Number(last) - Number(first) + 1 }, (_, index) => `${section}.${Number(first) + index}`),
      ),
    );
    expect(named.filter((requirement, index) => named.indexOf(requirement) !== index)).toEqual([]);
    expect(named).toHaveLength(Number(counted));

    const files = (await Promise.all(['src', 'test'].map(async (root) => (await readdir(root, { recursive: true })).map((name) => `/${join(root, name)}`)))).flat();
    const cited = [...page.matchAll(/`([\w./-]+\.ts)`/g)].map(([, name = '']) => name);
    expect(cited.length).toBeGreaterThan(40);
    expect(cited.filter((name) => !files.some((file) => file.endsWith(`/${name}`)))).toEqual([]);
  });

  it('explain each kind of error, with its status', async () => {
    const page = await readFile('docs/troubleshooting.md', 'utf8');
    for (const [kind, { status }] of Object.entries(ERROR_TABLE)) expect(page).toMatch(new RegExp(`^\\| ${status} \\| \`${kind}\``, 'm'));
  });

  it('show a log line of each kind of error, with its status', async () => {
    const page = await readFile('docs/log.md', 'utf8');
    const lines = [...page.matchAll(/```json\n([^]*?)```/g)].flatMap(([, block = '']) => block.trim().split('\n')).map((line) => JSON.parse(line) as Record<string, unknown>);
    for (const [kind, { status }] of Object.entries(ERROR_TABLE)) {
      expect(lines.filter((line) => line.msg === 'request' && line.kind === kind)).toEqual([expect.objectContaining({ level: 30, context: 'Http', requestId: expect.any(String) as string, status, reason: expect.any(String) as string })]);
    }
    expect(await undocumentedMembers(lines)).toEqual([]);
  });

  it('say what changed in the version of the package, on which the examples depend', async () => {
    const { version, private: isPrivate } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string; private?: boolean };
    // npm publishes no private package.
    expect(isPrivate).toBeUndefined();
    const versions = [...(await readFile('CHANGELOG.md', 'utf8')).matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
    expect(versions.find((heading) => heading !== 'Unreleased')).toMatch(new RegExp(`^${version.replaceAll('.', '\\.')} - \\d{4}-\\d\\d-\\d\\d$`));
    expect(versions.indexOf('Unreleased')).toBeLessThanOrEqual(0);
    const examples = (await readdir('examples', { withFileTypes: true })).filter((entry) => entry.isDirectory());
    for (const { name } of examples) {
      const { dependencies } = JSON.parse(await readFile(join('examples', name, 'package.json'), 'utf8')) as { dependencies: Record<string, string> };
      expect([name, dependencies['load-data-service']]).toEqual([name, `^${version}`]);
    }
  });

  it('name the same version of Node wherever one is recommended, and the tests run on it', async () => {
    const recommended: [string, RegExp][] = [
      ['.nvmrc', /^(\d+)$/],
      ['Dockerfile', /^FROM node:(\d+)-/],
      ['src/common/node-version.ts', /nvm install (\d+)/],
      ['test/integration/node-versions.spec.ts', /\['20\.19\.\d+', '(\d+)\.\d+\.\d+', '26\.\d+\.\d+'\]/],
    ];
    const versions = await Promise.all(recommended.map(async ([file, pattern]) => [file, ...[...(await readFile(file, 'utf8')).matchAll(new RegExp(pattern, 'gm'))].map(([, major]) => major)]));
    expect(versions).toEqual([['.nvmrc', '24'], ['Dockerfile', '24', '24'], ['src/common/node-version.ts', '24'], ['test/integration/node-versions.spec.ts', '24']]);
  });
});
