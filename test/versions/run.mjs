// Starts another version of the service and the built one in turn on one DATA_DIR, and compares what is stored with all
// answers.
import { execFile } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { runCommand } from '../../bench/support/command.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { Random } from '../../dist/testing/random.js';
import { EventReceiver } from '../crash/event-receiver.mjs';
import { Ledger } from '../crash/ledger.mjs';
import { Load, sendAgain } from '../crash/load.mjs';
import { otherProgramOf } from '../replicas/other-version.mjs';

const UPLOADS = 200;
const REMOVALS = 20;
const DELIVERED_WITHIN_MS = 60_000;
const MOST_SHOWN = 10;
const MANAGEMENT = '/idpManagementBackend';

const HELP = `Usage: npm run test:versions -- --other=<program> [options]

Starts another version of the service and the built one in turn on one DATA_DIR. Each finds, repeats and removes uploads
of the other, lists its roles and users, and delivers its events. Compares what is stored with all answers after each stop,
and verifies the store with both versions.

  --other <program>  another version of the service, as a tarball of npm pack or its dist/main.js
  --rounds <n>       how often each of both starts (2)
  --seed <n>         repeats the choices of a run, but not the timing of processes
`;

const command = (program, name, env) => promisify(execFile)(process.execPath, [join(dirname(program), 'commands', `${name}.js`)], { env });

async function ask(service, token, method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const answer = await fetch(service.url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text && JSON.parse(text);
}

async function people(service, token, names) {
  const { roles } = await ask(service, token, 'GET', `${MANAGEMENT}/roles`);
  const { users } = await ask(service, token, 'GET', `${MANAGEMENT}/users`);
  const listed = [roles, users].map((list) => list.map(({ name }) => name).join());
  const findings = listed.filter((list) => list !== names.join()).map((list) => `roles or users are ${list || 'missing'} instead of ${names.join()}`);
  const name = `n${names.length}`;
  const { role_id: role } = await ask(service, token, 'POST', `${MANAGEMENT}/create-role`, { role_name: name, permissions: ['read:users'] });
  await ask(service, token, 'POST', `${MANAGEMENT}/create-user`, { email: `${name}@grid.example`, name, roles: [role] });
  names.push(name);
  return findings;
}

/** @returns {Promise<string[]>} a sentence about each stored upload or event that is missing, wrong or superfluous. */
function history(programs, { rounds, random }) {
  return withServices(async (services) => {
    const receiver = await EventReceiver.start();
    services.atEnd(() => receiver.close());
    const ledger = new Ledger();
    const names = [];
    const findings = [];
    const start = (program) => {
      services.program = program;
      return services.start(receiver.variables);
    };
    for (let turn = 0; turn < 2 * rounds; turn++) {
      const program = programs[turn % 2];
      const service = await start(program);
      const token = (await command(program, 'token', service.env)).stdout.trim();
      await sendAgain(service, ledger);
      findings.push(...(await people(service, token, names)));
      const load = new Load(service, ledger, random);
      await load.until(() => ledger.acknowledged >= (turn + 1) * UPLOADS);
      await load.stop();
      for (let removal = 0; removal < REMOVALS; removal++) {
        const id = ledger.takeRemovable();
        await ledger.duringRemoval(id, () => ask(service, token, 'DELETE', `/uploads/${id}`).then(() => true));
      }
      await service.end('SIGTERM');
      await ledger.compare(services.data);
      for (const verifier of programs) {
        await command(verifier, 'verify-store', service.env).catch(({ stdout, message }) => findings.push(`verify:store: ${stdout || message}`));
      }
      console.log(`${turn % 2 ? 'this version ' : 'other version'}  ${ledger.acknowledged} uploads, ${ledger.removed} removed, ${names.length} roles and users`);
    }
    const last = await start(programs[0]);
    findings.push(...(await receiver.undelivered(ledger.acknowledgedIds, DELIVERED_WITHIN_MS)), ...receiver.findings);
    await last.end('SIGTERM');
    return [...findings, ...[ledger.lost, ledger.doubled, ledger.halfShown, ledger.wrong].flatMap((found) => [...found])];
  });
}

async function main() {
  const { values } = parseArgs({
    options: {
      other: { type: 'string' },
      rounds: { type: 'string', default: '2' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      help: { type: 'boolean', default: false },
    },
  });
  const [rounds, seed] = [values.rounds, values.seed].map(Number);
  const isWrong = ![rounds, seed].every(Number.isSafeInteger) || rounds < 1 || seed < 0;
  if (values.help || values.other === undefined || isWrong) {
    console.log(HELP);
    return values.help ? 0 : 1;
  }
  console.log(`seed ${seed}`);
  return withServices(async ({ directory }) => {
    const programs = [await otherProgramOf(values.other, directory), resolve('dist/main.js')];
    const findings = await history(programs, { rounds, random: new Random(seed) });
    for (const finding of findings.slice(0, MOST_SHOWN)) console.log(`  ${finding}`);
    console.log(findings.length === 0 ? 'Nothing was lost, stored twice, half stored or wrongly answered.' : `${findings.length} findings`);
    return findings.length === 0 ? 0 : 1;
  });
}

await runCommand(main);
