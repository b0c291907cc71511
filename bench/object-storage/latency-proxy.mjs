// Passes connections on to TARGET, and delays each incoming piece by LATENCY_MS. The order is kept, and any amount can
// be in flight. Responses are not delayed. So each request takes this much longer, and none waits for another.
import { connect, createServer } from 'node:net';
import { listen } from '../uploads/competitors/listen.mjs';

const { hostname: host, port } = new URL(process.env.TARGET);
const latency = Number(process.env.LATENCY_MS);

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const target = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
  // Timers with the same delay fire in the order in which they were set.
  client.on('data', (piece) => setTimeout(() => target.write(piece), latency));
  client.on('end', () => setTimeout(() => target.end(), latency));
  target.pipe(client);
  for (const [one, other] of [[client, target], [target, client]]) {
    // When one connection closes, the other is ended too.
    one.on('error', () => other.destroy()).on('close', () => setTimeout(() => other.destroy(), latency));
  }
});
listen(server);
