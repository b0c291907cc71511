import { connect } from 'node:net';
import { parseArgs } from 'node:util';
import { verifyStore } from '../dist/ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import { parseAnswer } from './fuzz/answer.mjs';
import { randomRequest } from './fuzz/requests.mjs';
import { defectOf } from './fuzz/rules.mjs';
import { Progress } from './support/progress.mjs';
import { Random } from '../dist/testing/random.js';
import { withServices } from './support/service.mjs';

const CONNECTIONS = 16;
const MOST_SHOWN = 10;
const ANSWER_TIMEOUT_MS = 20_000;

/** The limits of the service. They are small, so that random requests exceed them. */
const VARIABLES = { MAX_UPLOAD_BYTES: '4096', MAX_JSON_BYTES: '262144', REQUEST_IDLE_TIMEOUT_MS: '1000' };

/**
 * Sends random requests and checks each answer against the documented interface.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether there are no defects.
 */
export default function fuzz(parameters) {
  const { values } = parseArgs({
    args: parameters,
    options: { requests: { type: 'string', default: '10000' }, seed: { type: 'string' }, only: { type: 'string' } },
  });
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  const first = Number(values.only ?? 0);
  const end = values.only === undefined ? Number(values.requests) : first + 1;
  console.log(`seed ${seed}`);
  return withServices(async (services) => {
    const service = await services.start(VARIABLES);
    const known = await prepare(service);
    const { counts, defects } = await sendAll(service, known, { seed, first, end });
    console.table(Object.fromEntries([...counts].sort().map(([status, count]) => [status, { count }])));
    for (const defect of defects.slice(0, MOST_SHOWN)) console.log(describe(defect, seed, known));
    const afterwards = await lookAfterwards(services, service);
    for (const problem of afterwards) console.log(problem);
    console.log(`${end - first} requests, ${defects.length} wrong answers, ${afterwards.length} wrong things left behind (seed ${seed})`);
    return defects.length + afterwards.length === 0;
  });
}

async function prepare(service) {
  const token = await service.token();
  const create = async (operation, body) => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const url = `${service.url}/idpManagementBackend/${operation}`;
    return (await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  };
  const { role_id: roleId } = await create('create-role', { role_name: 'Known', permissions: ['read:users'] });
  const { user_id: userId } = await create('create-user', { email: 'known@grid.example', roles: [] });
  return { token, userId, roleId };
}

async function sendAll(service, known, { seed, first, end }) {
  const counts = new Map();
  const defects = [];
  const progress = new Progress();
  let next = first;
  const work = async () => {
    while (next < end) {
      const index = next++;
      const request = randomRequest(new Random(Math.imul(seed, 1_000_003) + index), known);
      const answer = await send(service.port, request);
      const outcome = answer?.status ?? (request.hangsUp ? 'hung up' : 'no answer');
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
      const defect = judge(request, answer);
      if (defect) defects.push({ index, request, answer, defect });
      progress.show(`${index + 1} of ${end} requests, ${defects.length} wrong answers`);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  progress.clear();
  return { counts, defects };
}

/** Resolves to the answer; undefined if the connection closes, or the service is silent for 20 s, before its end. */
function send(port, { parts, method, hangsUp, garbage }) {
  return new Promise((resolve) => {
    const chunks = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const look = (ended) => {
      const answer = parseAnswer(Buffer.concat(chunks), method, ended);
      if (!answer && !ended) return;
      resolve(answer);
      socket.destroy();
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => look(true));
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      look(false);
    });
    for (const event of ['end', 'close', 'error']) socket.once(event, () => look(true));
    const write = ([part, ...rest]) => {
      socket.write(part, () => {
        if (rest.length > 0) write(rest);
        else if (hangsUp) socket.destroy();
        // Closes the client's side of the connection, so that the service doesn't wait for the rest of a request that
        // will never be complete.
        else if (garbage && method === '') socket.end();
      });
    };
    write(parts);
  });
}

function judge(request, answer) {
  if (answer) return defectOf(request, answer);
  return request.hangsUp || request.garbage ? undefined : 'no answer';
}

function describe({ index, request, answer, defect }, seed, { token }) {
  const shown = (sent) => {
    const text = sent.replaceAll(token, '<token>');
    return JSON.stringify(text.length > 1_500 ? `${text.slice(0, 1_500)}… (${text.length} bytes)` : text);
  };
  return [
    `\n${defect}: request ${index}, to repeat with --seed=${seed} --only=${index}`,
    `  sent     ${shown(Buffer.concat(request.parts).toString('latin1'))}`,
    `  received ${answer ? `${answer.status} ${JSON.stringify(Object.fromEntries(answer.headers))} ${shown(answer.body)}` : 'nothing'}`,
  ].join('\n');
}

async function lookAfterwards(services, service) {
  const problems = [];
  const ready = await fetch(`${service.url}/health/ready`).then(({ status }) => status, () => 'no answer');
  if (ready !== 200) problems.push(`the service is not ready: ${ready}`);
  const { code } = await service.end('SIGTERM');
  if (code !== 0) problems.push(`the service ended with ${code}`);
  const [, ...said] = service.output.trimEnd().split('\n');
  for (const line of said) problems.push(`the service printed: ${line}`);
  for await (const { path, detail } of verifyStore(services.data)) problems.push(`${path}: ${detail}`);
  return problems;
}
