import { expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

it('variables without effect cause a warning in the log, which does not have their values', async () => {
  const workspace = await Workspace.create();
  try {
    const { program } = await workspace.start({ KEYCLOAK_URL: 'https://id.example', KEYCLOAK_CLIENT_SECRET: 'x-secret', RATE_LIMIT_PER_MINUT: '4711' });
    const warnings = program.lines.filter((line) => line.includes('"level":40')).map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(warnings).toEqual([
      'KEYCLOAK_URL, KEYCLOAK_CLIENT_SECRET: without effect, because IDENTITY_PROVIDER is "embedded"',
      'RATE_LIMIT_PER_MINUT: unknown variable, without effect: did you mean RATE_LIMIT_PER_MINUTE?',
    ]);
    expect(program.stdout + program.stderr).not.toMatch(/x-secret|4711/);
  } finally {
    await workspace.dispose();
  }
});
