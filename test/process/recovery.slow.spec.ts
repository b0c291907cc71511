import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyStore } from '../../src/ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import type { Finding } from '../../src/ingestion/application/store-verification/finding.js';
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

  it('every acknowledged upload is stored, and none is stored in part', async () => {
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
      expect(acknowledged.filter(({ uploadId, sha256 }) => kept.get(uploadId) !== sha256)).toEqual([]);
      const findings: Finding[] = [];
      for await (const finding of verifyStore(workspace.data)) findings.push(finding);
      expect(findings).toEqual([]);
    }
  });
});
