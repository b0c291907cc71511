import { randomInt } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';
import { filesIn, inspect } from './support/store.mjs';
import { Load } from './support/uploads.mjs';

const CONNECTIONS = 16;

/**
 * Kills the service again and again while it takes uploads in, and looks after each restart for what it acknowledged.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether nothing is lost, and nothing half there.
 */
export default function crash(parameters) {
  const { values } = parseArgs({
    args: parameters,
    options: {
      uploads: { type: 'string', default: '10000' },
      kills: { type: 'string', default: '10' },
      'self-test': { type: 'boolean', default: false },
    },
  });
  return withServices(async (services) => {
    const report = await killRepeatedly(services, Number(values.uploads), Number(values.kills));
    const clean = print(report);
    return values['self-test'] ? clean && selfTest(services.data, report.acknowledged) : clean;
  });
}

async function killRepeatedly(services, uploads, kills) {
  const acknowledged = new Map();
  const refused = [];
  const progress = new Progress();
  let findings = { lost: [], halves: [] };
  const found = new Set();
  for (let kill = 1; kill <= kills; kill++) {
    const service = await services.start();
    // The last one isn't early, so that there are as many uploads as were asked for.
    const share = (uploads * kill) / kills - acknowledged.size;
    const wanted = Math.max(1, Math.ceil(kill === kills ? share : share * (0.5 + Math.random())));
    await loadAndKill(service, wanted, (load) => {
      progress.show(`kill ${kill} of ${kills}: ${acknowledged.size + load.acknowledged.size} acknowledged`);
    }).then((load) => {
      for (const [id, sha256] of load.acknowledged) acknowledged.set(id, sha256);
      refused.push(...load.refused);
    });
    const restarted = await services.start();
    findings = await compare(services.data, acknowledged);
    for (const finding of [...findings.lost, ...findings.halves]) found.add(finding);
    progress.clear();
    console.log(
      `kill ${String(kill).padStart(2)}: acknowledged ${acknowledged.size}, lost ${findings.lost.length}, half shown ${findings.halves.length}`,
    );
    await restarted.end('SIGTERM');
  }
  return { acknowledged, refused, ...findings, found: [...found] };
}

/** Uploads until so many are acknowledged, and a random moment longer; then kill -9. */
async function loadAndKill(service, wanted, onProgress) {
  let load;
  await new Promise((resolve, reject) => {
    load = new Load(service.port, CONNECTIONS, () => {
      onProgress(load);
      if (load.acknowledged.size >= wanted) resolve();
    });
    load.ended.then(() => reject(new Error(`The service ended by itself: ${service.output}`)));
  });
  await delay(randomInt(50));
  await service.end('SIGKILL');
  await load.ended;
  return load;
}

/** What was acknowledged and isn't there as it was sent, and what is half there. */
async function compare(data, acknowledged) {
  const { lines, halves } = await inspect(data);
  const lost = [...acknowledged].filter(([id, sha256]) => lines.get(id)?.content_sha256 !== sha256).map(([id]) => `${id} is lost`);
  return { lost, halves };
}

function print({ acknowledged, refused, lost, halves, found }) {
  const kinds = [...acknowledged.values()].filter((sha256) => sha256 === null).length;
  console.log(`acknowledged ${acknowledged.size} (${kinds} without a file), refused ${refused.length}`);
  console.log(`lost         ${lost.length}`);
  console.log(`half shown   ${halves.length}`);
  for (const finding of found.slice(0, 20)) console.log(`  ${finding}`);
  return found.length === 0 && refused.length === 0;
}

/** Removes bytes, and a line, and leaves bytes in staging/: each must be found, or the bench proves nothing. */
async function selfTest(data, acknowledged) {
  const [first, second] = [...(await inspect(data)).lines.values()].filter((line) => line.content_path !== null);
  const expectations = [];
  const expectFindings = async (title, lost, half) => {
    const found = await compare(data, acknowledged);
    const ok = found.lost.length === lost && found.halves.length === half;
    expectations.push(ok);
    console.log(`self-test: ${title}: lost ${found.lost.length}, half shown ${found.halves.length}: ${ok ? 'found' : 'NOT FOUND'}`);
  };
  await rm(join(data, first.content_path));
  await expectFindings('bytes removed', 0, 1);
  await removeLine(data, second.upload_id);
  await expectFindings('a line removed', acknowledged.has(second.upload_id) ? 1 : 0, 2);
  await writeFile(join(data, 'staging', 'left-over'), '');
  await expectFindings('a staged file left', acknowledged.has(second.upload_id) ? 1 : 0, 3);
  return expectations.every(Boolean);
}

async function removeLine(data, uploadId) {
  for (const segment of await filesIn(data, 'uploads')) {
    const lines = (await readFile(join(data, segment), 'utf8')).split('\n');
    await writeFile(join(data, segment), lines.filter((line) => !line.includes(uploadId)).join('\n'));
  }
}
