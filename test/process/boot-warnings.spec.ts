import { expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

it('variables of another identity provider than the chosen one cause one warning in the log', async () => {
  const workspace = await Workspace.create();
  try {
    const { program } = await workspace.start({ KEYCLOAK_URL: 'https://id.example', KEYCLOAK_CLIENT_SECRET: 'x-secret' });
    const warnings = program.lines.filter((line) => line.includes('"level":40')).map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(warnings).toEqual(['KEYCLOAK_URL, KEYCLOAK_CLIENT_SECRET: without effect, because IDENTITY_PROVIDER is "embedded"']);
    expect(program.stdout + program.stderr).not.toContain('x-secret');
  } finally {
    await workspace.dispose();
  }
});
