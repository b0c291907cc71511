import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ready, Workspace } from '../support/process.js';

// The time limit is long, because `npm start` builds first, which takes long on a busy machine.
describe('npm start', { timeout: 120_000 }, () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose(), 30_000);

  it('becomes the process of the service, so that a signal to npm stops the service in order', async () => {
    const npm = workspace.run('npm', ['start'], {}, process.cwd());
    const { url } = await ready(npm);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);

    expect(await npm.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(npm.stdout).toContain('"stopping"');
    await expect(fetch(url)).rejects.toThrow();
  });
});
