// Requests services and a bare server continuously. Runs in its own process, so that the load of the rig doesn't delay
// the requests. Reports each answer of a service that is wrong, or took longer than `mostMs` after subtracting the
// machine's share: the time of the bare server, and how long the service's main thread waited for a CPU (known only on
// Linux). If that thread waited longer than `mostMs`, requests have piled up while it couldn't run, and take longer
// also after that. Such an answer is reported only if the thread ran for more than `MOST_RUN_MS` before it answered.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 40;
const SILENCE_MS = 30_000;
const MOST_RUN_MS = 1_000;

/**
 * Sends one GET request.
 *
 * @returns {Promise<{ began: number, ms: number, status?: number | 'none' }>} `status` is `none` after 30 s without an
 *   answer, and undefined when the connection failed.
 */
function probe(port, path) {
  const began = performance.now();
  return new Promise((resolve) => {
    const end = (status) => resolve({ began, ms: performance.now() - began, status });
    const request = get({ host: '127.0.0.1', port, path, agent: false, timeout: SILENCE_MS }, (answer) => {
      answer.resume().once('error', () => end()).once('end', () => end(answer.statusCode));
    });
    request.once('timeout', () => request.destroy()).once('error', () => end(performance.now() - began > SILENCE_MS ? 'none' : undefined));
  });
}

/**
 * How long the main thread of a process has run so far (`ran`), and has waited for a CPU (`waited`), in milliseconds.
 * Both are 0 if unknown.
 */
function cpuTimes(pid) {
  try {
    const [ran, waited] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ');
    return { ran: Number(ran) / 1e6, waited: Number(waited) / 1e6 };
  } catch {
    return { ran: 0, waited: 0 };
  }
}

async function watch(ports, mostMs) {
  const pids = new Map();
  const control = fork(import.meta.filename, ['bare']);
  const [controlPort] = await once(control, 'message');
  const bare = [];
  let probes = 0;
  let starved = 0;
  const watchBare = async () => {
    for (;;) {
      bare.push(await probe(controlPort, '/'));
      if (bare.length > 2_000) bare.shift();
      await delay(PAUSE_MS);
    }
  };
  const watchService = async (port) => {
    for (;;) {
      const pid = pids.get(port);
      const before = cpuTimes(pid);
      const { began, ms, status } = await probe(port, '/health/live');
      const after = cpuTimes(pid);
      const [ranMs, cpuMs] = [Math.max(0, after.ran - before.ran), Math.max(0, after.waited - before.waited)];
      const isStarved = cpuMs > mostMs;
      if (status === 200 && isStarved) starved += 1;
      else if (status === 200) probes += 1;
      const bareMs = Math.max(0, ...bare.filter((each) => each.began + each.ms >= began).map((each) => each.ms));
      const isWrong = status !== undefined && status !== 200;
      const isLate = isStarved ? ranMs > MOST_RUN_MS : ms - bareMs - cpuMs > mostMs;
      if (isWrong || isLate) process.send({ port, ms: Math.round(ms), bareMs: Math.round(bareMs), cpuMs: Math.round(cpuMs), ranMs: Math.round(ranMs), status });
      await delay(PAUSE_MS);
    }
  };
  process.on('message', ({ port, pid }) => {
    if (pid === undefined) process.send({ probes, starved });
    else pids.set(port, pid);
  });
  process.on('disconnect', () => {
    control.kill();
    process.exit();
  });
  void watchBare();
  for (const port of ports) void watchService(port);
  process.send('watching');
}

if (process.argv[2] === 'bare') {
  process.on('disconnect', () => process.exit());
  const server = createServer((_, response) => response.end('{}')).listen(0, '127.0.0.1', () => process.send(server.address().port));
} else {
  await watch(JSON.parse(process.argv[2]), Number(process.argv[3]));
}
