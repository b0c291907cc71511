// Sends one large upload with as little work as possible, so that the measured process has the CPU: as fast as it can,
// or at most at `bytesPerSecond`. Prints the outcome as JSON.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const MIB = 1024 * 1024;
const { url, type, head = '', tail = '', bytes, bytesPerSecond = Infinity } = JSON.parse(process.argv[2]);
const { hostname, port, pathname, search } = new URL(url);
const chunk = randomBytes(MIB);

const socket = connect({ host: hostname, port: Number(port) });
await once(socket, 'connect');
let received = '';
const answered = new Promise((resolve) => {
  socket.setEncoding('latin1').on('data', (text) => {
    received += text;
    if (received.includes('\r\n\r\n')) resolve();
  });
  socket.once('close', resolve).once('error', resolve);
});

let over = false;
void answered.then(() => (over = true));
const write = async (data) => {
  if (!socket.write(data)) await Promise.race([once(socket, 'drain'), answered]);
};

const length = head.length + bytes + tail.length;
const began = performance.now();
await write(
  `POST ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n${head}`,
);
for (let sent = 0; sent < bytes && !over; sent += MIB) {
  const dueAt = began + (sent / bytesPerSecond) * 1000;
  if (dueAt > performance.now()) await delay(dueAt - performance.now());
  await write(chunk);
}
if (tail) await write(tail);
await answered;
const seconds = (performance.now() - began) / 1000;
socket.destroy();

const status = /^HTTP\/1\.1 (\d{3}) /.exec(received)?.[1] ?? 'no answer';
console.log(JSON.stringify({ figures: { throughput: bytes / MIB / seconds }, others: status === '200' ? {} : { [status]: 1 } }));
