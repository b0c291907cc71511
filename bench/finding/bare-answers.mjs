// Answers like a page of uploads, or like one upload, without storing or finding anything.
import { createServer } from 'node:http';
import { listen } from '../uploads/competitors/listen.mjs';

const LINE_BYTES = 360;
const one = Buffer.alloc(LINE_BYTES, ' ');
const page = Buffer.alloc(100 * LINE_BYTES, ' ');

// Idle connections stay open for longer than a turn of the measurement, during which the client doesn't use its own.
const server = createServer({ keepAliveTimeout: 75_000 }, ({ url }, response) => response.end(url === '/uploads' ? page : one));
listen(server);
