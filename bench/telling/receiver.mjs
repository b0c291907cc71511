// A webhook receiver that accepts batches of events. With the parameter `refusing`, it refuses them with 503 until its
// parent process sends a message. Every 100 ms it sends to its parent process how many events it has accepted so far.
import { createServer } from 'node:http';

const EVENT = Buffer.from('"specversion":"1.0"');

let taken = 0;
let isRefusing = process.argv[2] === 'refusing';
process.on('message', () => {
  isRefusing = false;
});
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (!isRefusing) taken += countOf(EVENT, Buffer.concat(chunks));
  response.writeHead(isRefusing ? 503 : 204, isRefusing ? { 'Retry-After': '1' } : {}).end();
});
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
setInterval(() => process.send({ taken }), 100);

/** Counts a text in a batch. Parsing the batch would take the processor from the service that is measured. */
function countOf(part, bytes) {
  let count = 0;
  for (let at = bytes.indexOf(part); at >= 0; at = bytes.indexOf(part, at + part.length)) count += 1;
  return count;
}
