import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';

const MOST_JSON = 10 * 1024 * 1024;
const FORM_BYTES = 20_000_000;
const KEYS = 900_000;
const json = { 'Content-Type': 'application/json' };

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/**
 * The expected result of uploading a JSON object that has members other than `additional_data`: its bytes are stored as
 * the upload's file.
 */
const asFile = (decoded) => ({ additionalData: null, size: decoded.length, sha256: sha256(decoded) });

/** A gzip body of 10 KB that expands to millions of JSON values. */
function bomb() {
  const head = '{"x":[{}';
  const decoded = Buffer.from(`${head}${',{}'.repeat(Math.floor((MOST_JSON - head.length - 2) / 3))}]}`);
  const body = gzipSync(decoded, { level: 9 });
  return { headers: { ...json, 'Content-Encoding': 'gzip' }, body, kept: asFile(decoded) };
}

function manyKeys() {
  const body = Buffer.from(`{${Array.from({ length: KEYS }, (_, at) => `"${at.toString(36)}":0`).join(',')}}`);
  return { headers: json, body, kept: asFile(body) };
}

function emptyParts() {
  const part = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n';
  const file = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n--b--\r\n';
  const body = Buffer.from(part.repeat(Math.floor(FORM_BYTES / part.length)) + file);
  return { headers: { 'Content-Type': 'multipart/form-data; boundary=b' }, body, kept: { additionalData: null, size: 1, sha256: sha256('x') } };
}

const BODIES = { 'gzip bomb': bomb, '900,000 keys': manyKeys, '20 MB of empty parts': emptyParts };

/**
 * Clients upload bodies that cost a careless service much more to read than they cost the client to send. Each must be
 * stored completely or rejected.
 */
export default {
  name: 'hostile-bodies',
  plan: (random) => {
    const body = random.pick(Object.keys(BODIES));
    return { body, clients: body === 'gzip bomb' ? random.pick([1, 5, 60]) : random.pick([1, 3]) };
  },
  title: ({ body, clients }) => `${clients} x ${body}`,
  async run(world, { body: name, clients }, { random, replica }) {
    const { headers, body, kept } = BODIES[name]();
    const one = () => {
      const { path, sent } = world.someUpload(random, { largest: 1 });
      const upload = { path, headers: { ...headers, 'Content-Length': body.length }, body, sent: { ...sent, ...kept } };
      return replica().upload(upload, { expected: [400, 413] });
    };
    await Promise.all(Array.from({ length: clients }, one));
  },
};
