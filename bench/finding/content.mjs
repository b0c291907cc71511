import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { Progress } from '../support/progress.mjs';
import { median } from '../support/table.mjs';

const MIB = 1024 * 1024;
const FILE_MIB = 1024;
const ROUNDS = 5;
const TARGET = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=big.bin&manufacturer=m';

const range = (list) => `${Math.min(...list).toFixed(2)}-${Math.max(...list).toFixed(2)}`;

export async function uploadFile(services, service, mebibytes) {
  const chunk = randomBytes(MIB);
  let sent = 0;
  const body = new ReadableStream({
    pull(controller) {
      controller.enqueue(chunk);
      if (++sent === mebibytes) controller.close();
    },
  });
  const answer = await fetch(service.url + TARGET, { method: 'POST', body, duplex: 'half', headers: { 'Content-Type': 'text/csv' } });
  if (!answer.ok) throw new Error(`The upload got ${answer.status}.`);
  const id = answer.headers.get('x-upload-id');
  const date = new Date().toISOString().slice(0, 10);
  return { id, path: join(services.data, `files/kind=historical/customer_id=c/date=${date}/${id}.bin`) };
}

/**
 * Compares the rate at which curl fetches 1 GiB from the service with the rate at which it fetches the same file from
 * nginx, in turns. Also measures how much the service's memory grows meanwhile.
 */
export async function measureContent(services) {
  const service = await services.start();
  const authorization = `Authorization: Bearer ${await service.token()}`;
  const { id, path } = await uploadFile(services, service, FILE_MIB);
  const nginx = await startNginx(services, path);
  if (!nginx) return [{ title: '1 GiB against nginx', figure: 'nginx is not installed', goal: '>= 0.90', ok: false }];
  const meter = new MemoryMeter(service.child.pid);
  const rates = { service: [], nginx: [] };
  const progress = new Progress();
  // The first fetch from each server isn't measured, because it reads the file into the page cache.
  await fetchRate(`${service.url}/uploads/${id}/content`, authorization);
  await fetchRate(nginx, authorization);
  await meter.begin();
  for (let round = 1; round <= ROUNDS; round++) {
    progress.show(`1 GiB: round ${round} of ${ROUNDS}`);
    rates.service.push(await fetchRate(`${service.url}/uploads/${id}/content`, authorization));
    rates.nginx.push(await fetchRate(nginx, authorization));
  }
  progress.clear();
  const { growth } = await meter.read();
  const ratios = rates.service.map((rate, round) => rate / rates.nginx[round]);
  const figure = `${Math.round(median(rates.service))} MiB/s, nginx ${Math.round(median(rates.nginx))} MiB/s: ${median(ratios).toFixed(2)} (${range(ratios)})`;
  return [
    { title: '1 GiB against nginx', figure, goal: '>= 0.90', ok: median(ratios) >= 0.9 },
    { title: 'growth of memory during downloads', figure: `${Math.round(growth / MIB)} MiB`, goal: '< 50 MiB', ok: growth < 50 * MIB },
  ];
}

async function fetchRate(url, authorization) {
  const { stdout } = await promisify(execFile)('curl', ['-sS', '-f', '-o', '/dev/null', '-H', authorization, '-w', '%{speed_download}', url]);
  return Number(stdout) / MIB;
}

async function startNginx(services, path) {
  const home = join(services.directory, 'nginx');
  await mkdir(home);
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${home};`).join(' ');
  const configuration = `daemon off; pid ${home}/pid; error_log ${home}/error; user root; worker_processes 1; events {}
    http { access_log off; sendfile on; ${temporary} server { listen 127.0.0.1:${port}; location = /file { alias ${path}; } } }`;
  await writeFile(join(home, 'nginx.conf'), configuration);
  const nginx = spawn('nginx', ['-p', home, '-c', join(home, 'nginx.conf')], { stdio: 'ignore' });
  const failed = once(nginx, 'error').then(() => 'missing');
  services.atEnd(() => nginx.kill());
  const url = `http://127.0.0.1:${port}/file`;
  while ((await Promise.race([failed, answers(url)])) !== true) {
    if (nginx.exitCode !== null) throw new Error('nginx ended by itself.');
    if (nginx.pid === undefined) return undefined;
    await delay(50);
  }
  return url;
}

const answers = (url) =>
  new Promise((done) => {
    const request = get(url, { method: 'HEAD' }, (response) => {
      response.resume();
      done(response.statusCode === 200);
    });
    request.once('error', () => done(false));
  });

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
