// A webhook receiver that takes batches of events. With the parameter `refusing`, it refuses them until its parent
// process sends a message. Sends the number of events that it has taken to its parent process every 100 ms.
import { createServer } from 'node:http';

let taken = 0;
let isRefusing = process.argv[2] === 'refusing';
process.on('message', () => {
  isRefusing = false;
});
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (!isRefusing) taken += JSON.parse(Buffer.concat(chunks)).length;
  response.writeHead(isRefusing ? 503 : 204, isRefusing ? { 'Retry-After': '1' } : {}).end();
});
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
setInterval(() => process.send({ taken }), 100);
