// Passes connections on to TARGET, and each piece of what comes in LATENCY_MS later, in order and however much is on its
// way; what comes back goes at once. So a request takes so much longer, and none waits for another.
import { connect, createServer } from 'node:net';
import { listen } from '../uploads/competitors/listen.mjs';

const { hostname: host, port } = new URL(process.env.TARGET);
const latency = Number(process.env.LATENCY_MS);

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const target = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
  // Timers of one length end in the order of their beginning.
  client.on('data', (piece) => setTimeout(() => target.write(piece), latency));
  client.on('end', () => setTimeout(() => target.end(), latency));
  target.pipe(client);
  for (const [one, other] of [[client, target], [target, client]]) {
    // Whoever is gone is told of by its end.
    one.on('error', () => other.destroy()).on('close', () => setTimeout(() => other.destroy(), latency));
  }
});
listen(server);
