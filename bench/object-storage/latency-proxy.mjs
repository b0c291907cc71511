// A proxy that passes connections on to TARGET, and delays each piece of data from a client by LATENCY_MS. The order of
// the pieces is kept, and any number can be in flight. Data from TARGET isn't delayed. So each request takes LATENCY_MS
// longer, and no request waits for another.
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
    // When the connection to the client or to TARGET closes, the other one is closed too.
    one.on('error', () => other.destroy()).on('close', () => setTimeout(() => other.destroy(), latency));
  }
});
listen(server);
