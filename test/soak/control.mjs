// A bare HTTP server, whose latencies show how fast the machine is. It answers a GET from memory, and a POST after
// appending its body to a file in the working directory and syncing it.
import { open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { listen } from '../../bench/uploads/competitors/listen.mjs';
import { answerSmallJson } from '../../bench/uploads/competitors/small-json.mjs';

const file = await open('control.ndjson', 'a');

const write = answerSmallJson(async (additionalData) => {
  await file.write(`${JSON.stringify({ additional_data: additionalData })}\n`);
  await file.datasync();
});

const read = (_, response) => response.setHeader('Content-Type', 'application/json; charset=utf-8').end('{"status":"success"}');

// Without a time limit, the server closes no idle connection while the load sends a request on it.
listen(createServer({ keepAliveTimeout: 0 }, (request, response) => (request.method === 'GET' ? read : write)(request, response)));
