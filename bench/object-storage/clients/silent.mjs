// Opens connections to the service. Each declares a large file, sends a part of it and stalls. Prints "silent" when all
// connections are open, and closes them when standard input ends.
import { connect } from 'node:net';
import { once } from 'node:events';

const { port, target, connections, declared, sent } = JSON.parse(process.argv[2]);
const bytes = Buffer.alloc(sent, '2026-01-01T00:00Z,3.31\n');
const head = `POST ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: text/csv\r\nContent-Length: ${declared}\r\n\r\n`;

const sockets = Array.from({ length: connections }, () => {
  // Refused and closed connections are expected: how the service handles them is part of the measurement.
  const socket = connect({ host: '127.0.0.1', port }).on('error', () => undefined).resume();
  socket.write(head);
  socket.write(bytes);
  return socket;
});
await Promise.all(sockets.map((socket) => once(socket, 'connect')));
console.log('silent');
process.stdin.resume();
await once(process.stdin, 'end');
for (const socket of sockets) socket.destroy();
