import { createServer } from 'node:http';
import { listen } from '../../bench/uploads/competitors/listen.mjs';

/**
 * Serves the requests of the load to a control.
 *
 * @param {object} answers
 * @param {() => Promise<Uint8Array>} answers.read reads the bytes with which a GET is answered
 * @param {import('node:http').RequestListener} answers.write answers a POST
 */
export function listenAsControl({ read, write }) {
  const answerRead = (_, response) => {
    read().then(
      (bytes) => response.end(bytes),
      (error) => {
        console.error(error);
        response.writeHead(500).end();
      },
    );
  };
  // Without a time limit, the server closes no idle connection while the load sends a request on it.
  listen(createServer({ keepAliveTimeout: 0 }, (request, response) => (request.method === 'GET' ? answerRead : write)(request, response)));
}
