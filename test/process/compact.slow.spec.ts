import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

describe('npm run compact', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('reports in one line that there is nothing to do on a local disk', async () => {
    const { code, stdout, stderr } = await workspace.compact();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^FILE_STORAGE is local: .*\n$/);
  });

  it.each<[string, string[], Record<string, string>, RegExp]>([
    ['the kind is unknown', ['--kind', 'other'], {}, /^--kind must be historical or nowcast \(usage: .*\)\n$/],
    ['the date is malformed', ['--date', 'yesterday'], {}, /^--date must be a day in the form YYYY-MM-DD \(usage: .*\)\n$/],
    ['there is no such day', ['--date', '2026-02-30'], {}, /^--date must be a day in the form YYYY-MM-DD \(usage: .*\)\n$/],
    ['there is no such month', ['--date', '2026-13-01'], {}, /^--date must be a day in the form YYYY-MM-DD \(usage: .*\)\n$/],
    ['the day has not ended', ['--date', '2999-01-01'], {}, /^--date must be a UTC day that ended .*\(usage: .*\)\n$/],
    ['there is an extra argument', ['uploads'], {}, /^Unexpected argument 'uploads'.*\(usage: .*\)\n$/],
    ['an option is unknown', ['--all'], {}, /^Unknown option '--all'.*\(usage: .*\)\n$/],
    ['the environment is wrong', [], { PORT: 'x' }, /^PORT: .*\n$/],
  ])('ends with 2 when %s', async (_, parameters, variables, message) => {
    const { code, stdout, stderr } = await workspace.compact(parameters, variables);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('prints its usage', async () => {
    const { code, stdout, stderr } = await workspace.compact(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('[--date YYYY-MM-DD] [--kind historical|nowcast] [--dry-run] [--json]');
  });
});
