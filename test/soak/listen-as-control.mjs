import { createServer } from 'node:http';
import { listen } from '../../bench/uploads/competitors/listen.mjs';

/**
 * Serves the requests of the load to a control. `GET /memory` is answered from memory.
 *
 * @param {object} answers
 * @param {() => Promise<Uint8Array>} answers.fetch fetches the bytes with which `GET /stored` is answered
 * @param {import('node:http').RequestListener} answers.write answers `POST /stored`
 */
export function listenAsControl({ fetch, write }) {
  const answerFetched = (response) => {
    fetch().then(
      (bytes) => response.end(bytes),
      (error) => {
        console.error(error);
        response.writeHead(500).end();
      },
    );
  };
  const server = createServer((request, response) => {
    if (request.method === 'POST') write(request, response);
    else if (request.url === '/stored') answerFetched(response);
    else response.setHeader('Content-Type', 'application/json; charset=utf-8').end('{"status":"success"}');
  });
  // Without a time limit, the server closes no idle connection while the load sends a request on it.
  server.keepAliveTimeout = 0;
  listen(server);
}
