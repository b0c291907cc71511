import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Workspace } from '../support/process.js';
import { expectRefused } from '../support/refused-start.js';

describe('a refused start', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await Workspace.create();
  });
  afterAll(() => workspace.dispose());

  it('reports that the port is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const data = join(workspace.directory, 'other');
    await expectRefused(workspace.launch({ PORT: String(port), DATA_DIR: data }), new RegExp(`^HOST, PORT: .*EADDRINUSE.*${port}`));
    server.close();
  });

  it('reports that DATA_DIR is a file', async () => {
    const file = join(workspace.directory, 'file');
    await writeFile(file, '');
    await expectRefused(workspace.launch({ DATA_DIR: file }), new RegExp(`^DATA_DIR: .*${file}`));
  });

  it('reports a malformed connection string, without its secret', async () => {
    const variables = { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'a', AZURE_STORAGE_CONNECTION_STRING: 'secret' };
    await expectRefused(workspace.launch(variables), /^AZURE_STORAGE_CONNECTION_STRING: (?!.*secret)/);
  });
});
