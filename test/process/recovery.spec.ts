import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { type Acknowledged, Load } from '../support/load.js';
import { Workspace } from '../support/process.js';

const KILLS = 2;
const UPLOADS_BEFORE_A_KILL = 60;

describe('after a kill -9 under load', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('all that was acknowledged is there, and nothing is half there', async () => {
    const view = new DataDirectoryView(workspace.data);
    const acknowledged: Acknowledged[] = [];
    for (let kill = 1; kill <= KILLS; kill++) {
      const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent' });
      const load = new Load(origin);
      await load.reached(UPLOADS_BEFORE_A_KILL);
      await program.end('SIGKILL');
      await load.ended();
      acknowledged.push(...load.acknowledged);

      await (await workspace.start({ LOG_LEVEL: 'silent' })).program.end('SIGTERM');
      const lines = await view.lines();
      const kept = new Map(lines.map((line) => [line.upload_id, line.content_sha256]));
      expect(kept.size).toBe(lines.length);
      expect(acknowledged.filter(({ uploadId, sha256 }) => kept.get(uploadId) !== sha256)).toEqual([]);
      const files = lines.filter((line) => line.content_path !== null);
      for (const { content_path: path, content_sha256: sha256 } of files) {
        const bytes = await view.bytes(path ?? '');
        expect(bytes && createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
      }
      expect(await view.contentPaths()).toEqual(files.map((line) => line.content_path).sort());
      expect(await view.files('staging')).toEqual([]);
    }
  });
});
