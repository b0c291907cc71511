// A proxy that passes connections on to TARGET, and delays each piece of data from a client by LATENCY_MS. The order of
// the pieces is kept, and any number can be in flight. Data from TARGET isn't delayed. So each request takes LATENCY_MS
// longer, and no request waits for another. With CERTIFICATE and KEY (PEM), clients connect over TLS.
import { connect, createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { listen } from '../uploads/competitors/listen.mjs';

const { TARGET, LATENCY_MS, CERTIFICATE: cert, KEY: key } = process.env;
const { hostname: host, port } = new URL(TARGET);
const latency = Number(LATENCY_MS);

const options = { allowHalfOpen: true, noDelay: true };
const server = cert ? createTlsServer({ ...options, cert, key }, pass) : createServer(options, pass);
listen(server);

function pass(client) {
  const target = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
  // Timers with the same delay fire in the order in which they were set.
  client.on('data', (piece) => setTimeout(() => target.write(piece), latency));
  client.on('end', () => setTimeout(() => target.end(), latency));
  target.pipe(client);
  for (const [one, other] of [[client, target], [target, client]]) {
    // When the connection to the client or to TARGET closes, the other one is closed too.
    one.on('error', () => other.destroy()).on('close', () => setTimeout(() => other.destroy(), latency));
  }
}
