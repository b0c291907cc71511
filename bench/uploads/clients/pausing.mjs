// Repeats one small upload over several connections, each of which pauses after every answer, and prints the outcome as
// JSON. This client does as little work as possible, to leave the CPU to the measured process.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { figuresOf } from '../../support/latencies.mjs';

const { url, type, body, connections, warmUpSeconds, seconds, pauseMs } = JSON.parse(process.argv[2]);
const { hostname, port, pathname, search } = new URL(url);
const request =
  `POST ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Type: ${type}\r\n` +
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

function exchange(socket) {
  return new Promise((resolve, reject) => {
    let received = '';
    const take = (text) => {
      received += text;
      const head = received.indexOf('\r\n\r\n');
      if (head < 0) return;
      const length = Number(/^content-length: (\d+)/im.exec(received)?.[1] ?? 0);
      if (received.length < head + 4 + length) return;
      end();
      resolve(received.slice(9, 12));
    };
    const fail = () => {
      end();
      reject(new Error('The connection ended.'));
    };
    const end = () => socket.off('data', take).off('close', fail);
    socket.on('data', take).on('close', fail);
    socket.write(request);
  });
}

async function send(duration) {
  const latencies = [];
  const others = {};
  const began = performance.now();
  const work = async () => {
    let socket;
    while (performance.now() - began < duration * 1000) {
      if (!socket || socket.destroyed) {
        socket = connect({ host: hostname, port: Number(port), noDelay: true }).setEncoding('latin1');
        // `exchange` notices a broken connection by its `close` event, so the `error` event is ignored.
        socket.on('error', () => undefined);
        await once(socket, 'connect');
      }
      const sent = performance.now();
      const status = await exchange(socket).catch(() => 'no answer');
      if (status === '200') latencies.push(performance.now() - sent);
      else others[status] = (others[status] ?? 0) + 1;
      await delay(pauseMs);
    }
    socket?.destroy();
  };
  await Promise.all(Array.from({ length: connections }, work));
  return { figures: figuresOf(latencies, (performance.now() - began) / 1000), others };
}

await send(warmUpSeconds);
console.log(JSON.stringify(await send(seconds)));
