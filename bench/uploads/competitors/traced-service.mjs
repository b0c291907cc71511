// The service with traces of its requests, and in a thread of its own a receiver of the traces, which drops them.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

if (isMainThread) {
  const [port] = await once(new Worker(new URL(import.meta.url)), 'message');
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${port}`;
  await import('../../../dist/main.js');
} else {
  const receiver = createServer((request, response) => {
    request.resume().once('end', () => response.end());
  });
  receiver.listen(0, '127.0.0.1', () => parentPort.postMessage(receiver.address().port));
}
