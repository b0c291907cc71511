import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { HAPROXY, NGINX, type RunningProxy, startProxy } from '../support/proxies.js';
import { Replica, until } from '../support/replicas.js';
import { type Protocol, PROTOCOLS, type Target, tlsConnection } from '../support/tls-client.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=m';
const CSV = { 'Content-Type': 'text/csv' };
/** How many requests the clients together still send after the proxy has shown its new certificate. */
const REQUESTS_AFTERWARDS = 20;

/** The fingerprint of the certificate that a proxy shows. */
async function shownBy(port: number): Promise<string | undefined> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const fingerprint = socket.getPeerX509Certificate()?.fingerprint256;
  socket.destroy();
  return fingerprint;
}

/** Uploads over a new connection. Resolves to the status of the answer, or to the error. */
async function upload(protocol: Protocol, target: Target): Promise<number | string> {
  const connection = tlsConnection(protocol, target);
  const send = () => connection.request(UPLOAD, { headers: CSV, body: 'a,b' }).then(({ status }) => status, String);
  const answer = await send();
  // nginx refuses what it receives over HTTP/2 while it closes the connection, and has not processed it. So clients repeat
  // it (RFC 9113, section 8.7).
  const last = String(answer).endsWith('NGHTTP2_REFUSED_STREAM') ? await send() : answer;
  connection.close();
  return last;
}

for (const kind of [NGINX, HAPROXY]) describe.skipIf(MISSING_PROXIES.includes(kind.program))(`the certificate of ${kind.name}`, () => {
  let replicas: readonly [Replica, Replica];
  let proxy: RunningProxy;
  beforeAll(async () => {
    const variables = { TRUST_PROXY: '1', LOG_LEVEL: 'warn' };
    replicas = await Promise.all([Replica.start(variables), Replica.start(variables)]);
    proxy = await startProxy(kind, [replicas[0].port, replicas[1].port], [], undefined, true);
  });
  afterAll(async () => {
    await proxy.stop();
    await Promise.all(replicas.map((replica) => replica.dispose()));
  });

  it('is replaced without a failed request', async () => {
    const { port } = proxy;
    const [former, formerWorkers] = [await shownBy(port), await proxy.workers()];
    const replaced = await proxy.replaceCertificate();
    const { fingerprint256 } = new X509Certificate(replaced);
    expect(former).not.toBe(fingerprint256);
    expect(formerWorkers).not.toEqual([]);
    const target = { port, certificate: proxy.certificate + replaced };
    let left = Infinity;
    const answers: (number | string)[] = [];
    const clients = PROTOCOLS.map(async (protocol) => {
      for (; left > 0; left--) answers.push(await upload(protocol, target));
    });
    const begun = PROTOCOLS.map((protocol) => tlsConnection(protocol, target).begin(UPLOAD, { headers: { ...CSV, 'Content-Length': 2 } }));
    for (const { body } of begun) body.write('a');
    await until(() => answers.length > 10);

    proxy.reload();
    await until(async () => (await shownBy(port)) === fingerprint256);
    left = REQUESTS_AFTERWARDS;
    await Promise.all(clients);
    for (const { body } of begun) body.end('b');
    expect(await Promise.all(begun.map(async ({ answer }) => (await answer).status))).toEqual([200, 200]);
    expect(answers.filter((answer) => answer !== 200)).toEqual([]);
    const stored = await Promise.all(replicas.map(({ lines }) => lines));
    expect(stored.flat()).toHaveLength(answers.length + begun.length);
    // Until then, a former worker may accept a connection, and show the former certificate.
    await until(async () => !(await proxy.workers()).some((worker) => formerWorkers.includes(worker)));
    expect(await shownBy(port)).toBe(fingerprint256);
  });
});
