import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';

const DEEP = 20_000;
const ODD_TEXTS = ['', ' ', '\u0000', '\ud800', 'x'.repeat(300), '\u{1f50c}', '__proto__', 'a\r\nb', 'null', '\u00a0', 'ä'];
const ODD_NUMBERS = ['0', '-0', '1e400', '-1', '9007199254740993', '1.5'];

/** A random body, valid or not, and the headers that describe it. */
export function randomBody(random, known) {
  const kind = random.pick(['none', 'json', 'json', 'json', 'json', 'form', 'form', 'bytes', 'urlencoded', 'broken']);
  return coded(random, KINDS[kind](random, known));
}

const KINDS = {
  none: () => ({ headers: [], body: Buffer.alloc(0) }),
  json: (random, known) => ({ headers: [['Content-Type', jsonType(random)]], body: Buffer.from(randomJson(random, known)) }),
  form: (random) => randomForm(random),
  bytes: (random) => ({
    headers: random.chance(0.8) ? [['Content-Type', random.pick(['text/csv', 'application/xml', 'x', '', ';', 'a/b; c="', 'image/*'])]] : [],
    body: random.bytes(random.below(5_000)),
  }),
  urlencoded: (random) => ({
    headers: [['Content-Type', 'application/x-www-form-urlencoded']],
    body: Buffer.from(random.pick(['grant_type=client_credentials', 'grant_type=password', 'a=%', 'a=b&a=b', ''])),
  }),
  broken: (random) => ({
    headers: [['Content-Type', 'application/json']],
    body: random.pick([
      () => random.bytes(random.below(200)),
      () => Buffer.from('{"additional_data":'),
      () => Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]),
      () => Buffer.from('{"additional_data":"\xff"}', 'latin1'),
      () => Buffer.from("{'a':1}"),
      () => Buffer.from('{}{}'),
      () => Buffer.from(`{"additional_data":"${'x'.repeat(300_000)}"}`),
    ])(),
  }),
};

const jsonType = (random) =>
  random.pick(['application/json', 'application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;', 'text/json', 'application/json; charset=utf-16']);

function randomJson(random, known) {
  if (random.chance(0.05)) return deep(random);
  if (random.chance(0.15)) return oddValue(random, 0);
  const members = {
    additional_data: ['"more"'],
    user_id: [JSON.stringify(known.userId), '"embedded|x"'],
    role_id: [JSON.stringify(known.roleId), '"role_x"'],
    role_name: [`"Role ${random.below(1e9)}"`],
    permissions: ['["read:users"]', '["a:b","a:b"]', '[]', '["*:*"]'],
    email: [`"user${random.below(1e9)}@grid.example"`, '"no mail"'],
    name: ['"Ada"'],
    roles: ['[]', JSON.stringify([known.roleId]), '["role_x"]', JSON.stringify([known.roleId, known.roleId])],
    new_name: ['"Grace"'],
  };
  const pairs = Object.entries(members)
    .filter(() => random.chance(0.9))
    .map(([name, values]) => `"${name}":${random.chance(0.85) ? random.pick(values) : oddValue(random, 0)}`);
  return `{${pairs.join()}}`;
}

function deep(random) {
  const [open, close] = random.pick([
    ['[', ']'],
    ['{"a":', '}'],
  ]);
  const nested = `${open.repeat(DEEP)}1${close.repeat(DEEP)}`;
  return random.pick([nested, `{"roles":${nested},"email":"a@b.example"}`, `{"additional_data":${nested}}`, open.repeat(DEEP)]);
}

function oddValue(random, depth) {
  const kind = random.below(depth > 3 ? 4 : 6);
  if (kind === 0) return JSON.stringify(random.pick(ODD_TEXTS));
  if (kind === 1) return random.pick(ODD_NUMBERS);
  if (kind < 4) return random.pick(['null', 'true', 'false', '"x"']);
  const items = Array.from({ length: random.below(4) }, () => oddValue(random, depth + 1));
  return kind === 4 ? `[${items.join()}]` : `{${items.map((item) => `${JSON.stringify(random.pick(ODD_TEXTS))}:${item}`).join()}}`;
}

function randomForm(random) {
  const boundary = random.pick(['b', 'boundary', '-', "'()+_,-./:=?", 'x'.repeat(70), 'x'.repeat(71)]);
  const names = ['file', 'file', 'file', 'additional_data', 'other', 'FILE', ''];
  const parts = Array.from({ length: random.below(4) }, () => randomPart(random, random.pick(names)));
  const whole = Buffer.concat([
    ...parts.flatMap((part) => [Buffer.from(`--${boundary}\r\n`), part, Buffer.from('\r\n')]),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  const body = random.chance(0.15) ? whole.subarray(0, random.below(whole.length + 1)) : whole;
  const type = random.pick([
    `multipart/form-data; boundary=${boundary}`,
    `multipart/form-data; boundary="${boundary}"`,
    `multipart/form-data; boundary="${boundary}"`,
    'multipart/form-data',
    'multipart/form-data; boundary=',
    `multipart/mixed; boundary=${boundary}`,
  ]);
  return { headers: [['Content-Type', type]], body };
}

function randomPart(random, name) {
  const headers = random.pick([
    `Content-Disposition: form-data; name="${name}"; filename="load.csv"\r\nContent-Type: text/csv\r\n`,
    `Content-Disposition: form-data; name="${name}"\r\n`,
    `content-disposition: form-data; name=${name}\r\n`,
    `Content-Disposition: form-data; name="${name}\r\n`,
    `Content-Disposition: attachment; name="${name}"\r\n`,
    'Content-Type: text/plain\r\n',
    'no header\r\n',
    '',
    `X: ${'x'.repeat(20_000)}\r\n`,
  ]);
  return Buffer.concat([Buffer.from(`${headers}\r\n`), random.bytes(random.below(300))]);
}

function coded(random, { headers, body }) {
  if (random.chance(0.8)) return { headers, body };
  const coding = random.pick(['gzip', 'deflate', 'br', 'identity', 'zstd', 'GZIP', 'gzip, gzip', '', 'constructor']);
  const encoded = { gzip: gzipSync, GZIP: gzipSync, deflate: deflateSync, br: brotliCompressSync }[coding]?.(body) ?? body;
  const sent = random.chance(0.3) ? random.pick([body, encoded.subarray(0, encoded.length / 2), random.bytes(50)]) : encoded;
  return { headers: [...headers, ['Content-Encoding', coding]], body: sent };
}
