import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Opens a connection to the service, for data that an HTTP client library would not send. */
export function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => {
      resolve(socket);
    });
    socket.once('error', reject);
  });
}

/**
 * Reads from a connection until an answer is complete by its Content-Length. An answer without this header counts as
 * complete with its head. Rejects if the connection ends before.
 */
export function readAnswer(socket: Socket): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let text = '';
    const finish = (): void => {
      const answer = parse(text);
      if (answer) resolve(answer);
    };
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      finish();
    });
    socket.once('close', () => {
      reject(new Error(`The connection ended with ${JSON.stringify(text.slice(0, 200))}`));
    });
    socket.once('error', reject);
  });
}

function parse(text: string): RawAnswer | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  if (status === 100) return parse(text.slice(end + 4));
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const body = text.slice(end + 4);
  return body.length >= Number(headers['content-length'] ?? 0) ? { status, headers, body } : undefined;
}

/** Sends these bytes unchanged to the service over a new connection, and reads the answer. */
export async function exchange(port: number, ...parts: (string | Buffer)[]): Promise<RawAnswer> {
  const socket = await open(port);
  try {
    const answer = readAnswer(socket);
    for (const part of parts) socket.write(part);
    return await answer;
  } finally {
    socket.destroy();
  }
}
